//! Draws the usage of a disk over days as an SVG: lines over a grid, levels and a legend. Without scripts,
//! style sheets and fonts.

use std::fmt::{Result, Write as _};

/// A line over time.
#[derive(Clone, Debug)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// A colour as SVG has it.
    pub colour: &'static str,
    /// Days and percents, in the order of time.
    pub points: Vec<(f64, f64)>,
}

/// A level across the whole plot.
#[derive(Clone, Debug)]
pub struct Level {
    /// The label.
    pub name: String,
    /// A colour as SVG has it.
    pub colour: &'static str,
    /// The position, in percent.
    pub percent: f64,
}

/// A plot of percents over days.
#[derive(Clone, Debug)]
pub struct Plot {
    /// The title.
    pub title: String,
    /// Number of days; at least one is drawn.
    pub days: u32,
    /// The lines; later ones are drawn over earlier ones.
    pub series: Vec<Series>,
    /// The levels.
    pub levels: Vec<Level>,
}

/// For the first of two lines.
pub const BLUE: &str = "#1f6fb4";
/// For the second; distinguishable from the blue for colour-blind readers.
pub const ORANGE: &str = "#d9660a";
/// For a level that should not be reached.
pub const RED: &str = "#a4161a";

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 480.0;
/// The frame of the lines: left, top, right, bottom.
const FRAME: [f64; 4] = [64.0, 84.0, 812.0, 428.0];
const INK: &str = "#24292f";
const FAINT: &str = "#57606a";
const GRID: &str = "#e4e7eb";
/// Labels of levels lie at least this far apart.
const LINE_HEIGHT: f64 = 15.0;

impl Plot {
    /// The plot as the text of an SVG file. The output is deterministic.
    pub fn to_svg(&self) -> String {
        let mut svg = String::new();
        // Writing into a text does not fail.
        let _written = self.write(&mut svg);
        svg
    }

    fn write(&self, svg: &mut String) -> Result {
        let [left, top, right, bottom] = FRAME;
        let title = escaped(&self.title);
        writeln!(
            svg,
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" font-family="system-ui, 'Segoe UI', Helvetica, Arial, sans-serif" font-size="12">"#
        )?;
        writeln!(svg, "<title>{title}</title>")?;
        writeln!(
            svg,
            r##"<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>"##
        )?;
        writeln!(
            svg,
            r#"<text x="{left}" y="32" font-size="18" font-weight="600" fill="{INK}">{title}</text>"#
        )?;
        self.write_axes(svg)?;
        for level in &self.levels {
            let y = self.y(level.percent);
            writeln!(
                svg,
                r#"<line x1="{left}" y1="{y:.1}" x2="{right}" y2="{y:.1}" stroke="{}" stroke-width="1.25" stroke-dasharray="6 4"/>"#,
                level.colour
            )?;
        }
        self.write_labels(svg)?;
        let mut legend = left;
        for series in &self.series {
            let points: Vec<String> = series
                .points
                .iter()
                .map(|&(day, percent)| format!("{:.1},{:.1}", self.x(day), self.y(percent)))
                .collect();
            writeln!(
                svg,
                r#"<polyline points="{}" fill="none" stroke="{}" stroke-width="2" stroke-linejoin="round" stroke-linecap="round"/>"#,
                points.join(" "),
                series.colour
            )?;
            writeln!(
                svg,
                r#"<line x1="{legend:.1}" y1="56" x2="{:.1}" y2="56" stroke="{}" stroke-width="3" stroke-linecap="round"/>"#,
                legend + 22.0,
                series.colour
            )?;
            writeln!(
                svg,
                r#"<text x="{:.1}" y="60" font-size="13" fill="{INK}">{}</text>"#,
                legend + 30.0,
                escaped(&series.name)
            )?;
            // About seven units a letter.
            legend += 62.0 + 7.0 * series.name.chars().count() as f64;
        }
        writeln!(
            svg,
            r#"<path d="M{left} {top}V{bottom}H{right}" fill="none" stroke="{FAINT}"/>"#
        )?;
        writeln!(svg, "</svg>")
    }

    /// Grid, ticks and labels of the axes.
    fn write_axes(&self, svg: &mut String) -> Result {
        let [left, top, right, bottom] = FRAME;
        for percent in (self.floor()..=100).step_by(10) {
            let y = self.y(f64::from(percent));
            writeln!(
                svg,
                r#"<line x1="{left}" y1="{y:.1}" x2="{right}" y2="{y:.1}" stroke="{GRID}"/><text x="{:.1}" y="{:.1}" text-anchor="end" fill="{FAINT}">{percent} %</text>"#,
                left - 8.0,
                y + 4.0
            )?;
        }
        for day in 0..=self.days() {
            let x = self.x(f64::from(day));
            writeln!(
                svg,
                r#"<line x1="{x:.1}" y1="{bottom}" x2="{x:.1}" y2="{:.1}" stroke="{FAINT}"/>"#,
                bottom + 5.0
            )?;
            if day < self.days() {
                writeln!(
                    svg,
                    r#"<text x="{:.1}" y="{:.1}" text-anchor="middle" fill="{FAINT}">{}</text>"#,
                    self.x(f64::from(day) + 0.5),
                    bottom + 18.0,
                    day + 1
                )?;
            }
        }
        let (middle, height) = (f64::midpoint(left, right), f64::midpoint(top, bottom));
        writeln!(
            svg,
            r#"<text x="{middle}" y="{}" text-anchor="middle" fill="{INK}">day</text>"#,
            bottom + 40.0
        )?;
        writeln!(
            svg,
            r#"<text x="18" y="{height}" transform="rotate(-90 18 {height})" text-anchor="middle" fill="{INK}">disk in use</text>"#
        )
    }

    /// Labels of the levels, right of the frame, from the top down, without overlap.
    fn write_labels(&self, svg: &mut String) -> Result {
        let mut levels: Vec<&Level> = self.levels.iter().collect();
        levels.sort_by(|a, b| b.percent.total_cmp(&a.percent));
        let mut free_from = FRAME[1];
        for level in levels {
            let y = (self.y(level.percent) + 4.0).max(free_from);
            writeln!(
                svg,
                r#"<text x="{:.1}" y="{y:.1}" fill="{}">{} % {}</text>"#,
                FRAME[2] + 10.0,
                level.colour,
                level.percent,
                escaped(&level.name)
            )?;
            free_from = y + LINE_HEIGHT;
        }
        Ok(())
    }

    fn days(&self) -> u32 {
        self.days.max(1)
    }

    /// The lowest percent drawn: the tens below all points.
    fn floor(&self) -> u32 {
        let points = self.series.iter().flat_map(|series| &series.points);
        let least = points.map(|point| point.1).fold(90.0, f64::min);
        // Between 0 and 90.
        (least / 10.0).floor().max(0.0) as u32 * 10
    }

    fn x(&self, day: f64) -> f64 {
        FRAME[0] + (FRAME[2] - FRAME[0]) * day / f64::from(self.days())
    }

    fn y(&self, percent: f64) -> f64 {
        let floor = f64::from(self.floor());
        FRAME[3] - (FRAME[3] - FRAME[1]) * (percent - floor) / (100.0 - floor)
    }
}

/// A text that may stand between tags.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(points: Vec<(f64, f64)>) -> Plot {
        Plot {
            title: "a < b & c".to_owned(),
            days: 2,
            series: vec![Series {
                name: "first".to_owned(),
                colour: BLUE,
                points,
            }],
            levels: [(85.0, "images removed"), (84.0, "pods evicted")]
                .into_iter()
                .map(|(percent, name)| Level {
                    name: name.to_owned(),
                    colour: RED,
                    percent,
                })
                .collect(),
        }
    }

    #[test]
    fn points_lie_where_the_axes_say() {
        let svg = plot(vec![(0.0, 50.0), (1.0, 75.0), (2.0, 100.0)]).to_svg();
        assert!(
            svg.contains(r#"points="64.0,428.0 438.0,256.0 812.0,84.0""#),
            "{svg}"
        );
        assert!(svg.contains("<title>a &lt; b &amp; c</title>"));
    }

    #[test]
    fn labels_keep_apart() {
        let svg = plot(vec![(0.0, 0.0)]).to_svg();
        let y = |name: &str| -> f64 {
            let line = svg.lines().find(|line| line.contains(name)).unwrap_or_default();
            let y = line.split("y=\"").nth(1).and_then(|rest| rest.split('"').next());
            y.and_then(|y| y.parse().ok()).unwrap_or(f64::NAN)
        };
        assert!(y("pods evicted") - y("images removed") >= LINE_HEIGHT);
    }
}
