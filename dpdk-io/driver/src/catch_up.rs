//! Catch-up limits of the lcores' late polls, as configured.

use weir_config::SwitchConfig;
use weir_flowctl::CatchUp;
use weir_units::Span;

/// Backlog that a late poll always makes up, in real time, unless the configuration allows less.
pub const CATCH_UP_BASE: Span = Span::from_micros(200);
/// Largest backlog that `catch_up = "auto"` makes up, in real time.
pub const CATCH_UP_AUTO_MOST: Span = Span::from_millis(100);
/// Time for which `catch_up = "auto"` remembers a gap between two polls, in real time.
const MEMORY: Span = Span::from_secs(1);

/// Returns the limits of a switch's `[lcores] catch_up` on its (dilated) clock.
pub fn catch_up(config: &SwitchConfig) -> CatchUp {
    let dilation = u64::from(config.time_dilation);
    let on_clock = |span: Span| span.divided_by(dilation);
    match config.lcores.catch_up {
        weir_config::CatchUpBound::Auto => CatchUp {
            base: on_clock(CATCH_UP_BASE),
            most: on_clock(CATCH_UP_AUTO_MOST),
            memory: Some(on_clock(MEMORY)),
        },
        weir_config::CatchUpBound::AtMost(most) => {
            CatchUp { base: on_clock(CATCH_UP_BASE.min(most)), most: on_clock(most), memory: None }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_real_and_the_rule_is_on_the_clock() {
        let rule = |lcores: &str| {
            let text = format!(
                "[switch]\ntime_dilation = 10\n[lcores]\n{lcores}\n[[ports]]\nname = \"a\"\nring = \"a\"\nrate = \"10Gbps\"\n[[ports]]\nname = \"b\"\nring = \"b\"\nrate = \"10Gbps\"\n"
            );
            catch_up(&weir_config::parse("test.toml", &text).unwrap())
        };
        let (us, ms) = (Span::from_micros, Span::from_millis);
        assert_eq!(rule(""), CatchUp { base: us(20), most: ms(10), memory: Some(ms(100)) });
        assert_eq!(rule("catch_up = \"auto\""), rule(""));
        assert_eq!(rule("catch_up = \"5ms\""), CatchUp { base: us(20), most: us(500), memory: None });
        assert_eq!(rule("catch_up = \"50us\""), CatchUp::at_most(us(5)));
        assert_eq!(rule("catch_up = \"0s\""), CatchUp::NONE);
    }
}
