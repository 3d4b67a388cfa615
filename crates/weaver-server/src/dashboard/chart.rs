//! The chart of finished attempts per minute.

use maud::{Markup, html};

use super::stats::{LastHour, MINUTES};
use super::text::number;

const LEFT: f64 = 44.0;
const TOP: f64 = 10.0;
const WIDTH: f64 = 660.0;
const HEIGHT: f64 = 120.0;

/// A stacked bar per minute; the totals are in the `aria-label`.
pub(super) fn hour(hour: &LastHour) -> Markup {
    let (succeeded, failed) = hour.totals();
    let words =
        format!("{} attempts succeeded and {} failed in the last hour", number(succeeded), number(failed));
    let top = scale(hour.minutes.iter().map(|(good, bad)| good + bad).max().unwrap_or(0));
    let y = |value: u64| TOP + HEIGHT - HEIGHT * value as f64 / top as f64;
    let step = WIDTH / MINUTES as f64;
    html! {
        figure .chart-figure {
            svg.chart viewBox=(format!("0 0 {} {}", LEFT + WIDTH + 30.0, TOP + HEIGHT + 28.0)) role="img" aria-label=(words) {
                @for value in [0, top / 2, top] {
                    line.axis x1=(LEFT) x2=(LEFT + WIDTH) y1=(y(value)) y2=(y(value)) {}
                    text x=(LEFT - 6.0) y=(y(value) + 4.0) text-anchor="end" { (number(value)) }
                }
                @for (index, (good, bad)) in hour.minutes.iter().enumerate() {
                    @let x = LEFT + step * index as f64 + 1.0;
                    @if *good > 0 { rect.ok x=(x) y=(y(*good)) width=(step - 2.0) height=(y(0) - y(*good)) {} }
                    @if *bad > 0 { rect.bad x=(x) y=(y(good + bad)) width=(step - 2.0) height=(y(0) - y(*bad)) {} }
                }
                @for ago in [60_u32, 45, 30, 15, 0] {
                    @let x = LEFT + WIDTH * f64::from(60 - ago) / 60.0;
                    @let label = if ago == 0 { "now".to_owned() } else { format!("−{ago} min") };
                    text x=(x) y=(TOP + HEIGHT + 21.0) text-anchor="middle" { (label) }
                }
            }
            figcaption.fine {
                "Finished attempts per minute: "
                span.key.ok {} (number(succeeded)) " succeeded" span.key.bad {} (number(failed)) " failed in the last hour."
            }
        }
    }
}

/// The next number of the form 2, 4 or 10 times a power of ten: half of it is whole.
fn scale(most: u64) -> u64 {
    let mut unit = 2;
    loop {
        for factor in [1, 2, 5] {
            if most <= unit * factor {
                return unit * factor;
            }
        }
        unit *= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_ends_at_a_round_number_at_or_above_the_maximum() {
        assert_eq!([0, 2, 3, 7, 11, 99, 100_000].map(scale), [2, 2, 4, 10, 20, 100, 100_000]);
    }

    #[test]
    fn a_chart_has_its_totals_as_text() {
        let mut last = LastHour::default();
        last.minutes.resize(MINUTES, (0, 0));
        last.minutes[59] = (12, 3);
        let shown = hour(&last).into_string();
        assert!(shown.contains("12 attempts succeeded and 3 failed in the last hour"), "{shown}");
        assert!(shown.contains("per minute"), "{shown}");
    }
}
