//! Parameters of a switch under test.

use weir_units::{BitRate, Bytes, CLASSES, Class, ClassSet, Span};

use crate::policy::{BufferPolicyConfig, BuildContext, PolicyError};
use crate::{BufferLayout, BufferPolicy, PortLayout};

/// Parameters of a switch under test.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Size of the buffer.
    pub size: Bytes,
    /// Number of ports.
    pub ports: u16,
    /// Private buffer ρ of every queue.
    pub private: Bytes,
    /// Headroom Φ of every lossless queue.
    pub headroom: Bytes,
    /// Lossless classes.
    pub lossless: ClassSet,
    /// Rate of every port.
    pub rate: BitRate,
}

impl Bounds {
    /// Returns the partition that a policy requires.
    ///
    /// # Panics
    /// If the segments do not fit.
    pub fn layout(&self, config: &dyn BufferPolicyConfig) -> BufferLayout {
        let headroom = |class| if self.lossless.contains(class) { self.headroom } else { Bytes::ZERO };
        let port = PortLayout {
            private: [self.private; CLASSES],
            headroom: Class::ALL.map(headroom),
            lossless: self.lossless,
        };
        let ports = vec![port; usize::from(self.ports)];
        config.layout_requirements().partition(self.size, ports).expect("a partition")
    }

    /// Builds the policy over a partition.
    ///
    /// # Errors
    /// The policy does not support these rates.
    pub fn policy(
        &self,
        config: &dyn BufferPolicyConfig,
        layout: &BufferLayout,
        xon_offset: Bytes,
    ) -> Result<Box<dyn BufferPolicy>, PolicyError> {
        let rates = vec![self.rate; usize::from(self.ports)];
        let (alphas, hosts) = (vec![None; rates.len()], vec![true; rates.len()]);
        config.build(&BuildContext {
            layout,
            rates: &rates,
            alphas: &alphas,
            hosts: &hosts,
            fill_rates: &rates,
            frame_max: Bytes::new(1_522),
            xon_offset,
            reaction: Span::ZERO,
        })
    }
}
