//! Extension of a finished sweep in its directory: by values, seeds or runs, with the rest unchanged.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::directory::{FinishedPoint, Manifest, Origin, SweepDir, all_finished};
use super::plan::{SweepPlan, identity_of};
use super::point_file::Point;
use crate::Failure;
use crate::files::with_path;

/// Points of a smaller sweep that finished in a directory, each with its folder and its place in a larger sweep.
pub(super) struct SweepExtension<'p> {
    smaller: Manifest,
    points: Vec<(FinishedPoint, PathBuf, &'p Point)>,
}

impl<'p> SweepExtension<'p> {
    /// Finds the finished points of a directory whose sweep is a part of `plan`; `None` for any other directory. `identity` makes the identity
    /// of a manifest from that of a plan.
    pub(super) fn find(
        plan: &'p SweepPlan,
        directory: &Path,
        manifest: &Manifest,
        identity: impl Fn(String) -> String,
    ) -> Option<SweepExtension<'p>> {
        let smaller = Manifest::read(directory).ok()?;
        let with_its_points = Manifest { identity: smaller.identity.clone(), ..manifest.clone() };
        if smaller.identity == manifest.identity
            || with_its_points.clash(&smaller).is_some()
            || (manifest.made_by, manifest.shard) != (Origin::Run, None)
        {
            return None;
        }
        let finished = all_finished(directory).ok()?;
        let hashes = finished.values().map(|(of, _)| of.point.hash.as_str());
        // Unfinished points are of an unknown sweep.
        if finished.len() != smaller.points || identity(identity_of(hashes)) != smaller.identity {
            return None;
        }
        let places: BTreeMap<&str, &Point> = plan.points.iter().map(|point| (point.hash.as_str(), point)).collect();
        let points = finished.into_values().map(|(of, folder)| {
            let place = *places.get(of.point.hash.as_str())?;
            Some((of, folder, place))
        });
        Some(SweepExtension { smaller, points: points.collect::<Option<_>>()? })
    }

    /// Makes the directory that of the larger sweep: points take their new numbers and folders.
    pub(super) fn apply(self, directory: &Path, manifest: &Manifest) -> Result<(), Failure> {
        let open = SweepDir::open(directory, &self.smaller)?;
        open.clear_unfinished()?;
        // Hidden folders are of no sweep: after a crash the next call removes them, and runs these points anew.
        for (_, folder, place) in &self.points {
            let [hidden, ..] = open.unfinished_paths(place);
            fs::rename(folder, &hidden).map_err(with_path(folder))?;
        }
        manifest.write(directory)?;
        for (finished, _, place) in self.points {
            open.move_finished(&FinishedPoint { point: place.clone(), ..finished }).map_err(with_path(directory))?;
        }
        Ok(())
    }
}
