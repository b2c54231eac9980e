//! Pictures of reports: grouped bars, a panel for each chart.

use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use crate::report::{BOUND, BenchReport, Chart, ChartMeasure, ReportRow};
use crate::{Error, Result};

const WIDTH: u32 = 1200;
const PANEL_HEIGHT: u32 = 330;
const FONT: &str = "sans-serif";
/// Colours that the colour-blind and black-and-white print can distinguish (Okabe and Ito).
const COLORS: [RGBColor; 8] = [
    RGBColor(80, 80, 80),
    RGBColor(213, 94, 0),
    RGBColor(230, 159, 0),
    RGBColor(0, 114, 178),
    RGBColor(86, 180, 233),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(150, 150, 0),
];

type PlotArea<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type PlotPanel<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
type PlotOutcome<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

impl BenchReport {
    /// The charts as SVG.
    ///
    /// # Errors
    /// [`Error::Io`] if a chart cannot be drawn.
    pub fn svg(&self) -> Result<String> {
        let mut text = String::new();
        let drawn = draw(self, &mut text).map_err(|why| std::io::Error::other(why.to_string()));
        drawn.map_err(Error::io("drawing the charts"))?;
        Ok(text)
    }
}

fn draw(report: &BenchReport, into: &mut String) -> PlotOutcome {
    let panels = report.charts.len().max(1);
    let root = SVGBackend::with_string(into, (WIDTH, PANEL_HEIGHT * panels as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    for (area, chart) in root.split_evenly((panels, 1)).iter().zip(&report.charts) {
        draw_panel(&root, area, &PanelContent::of(report, chart))?;
    }
    Ok(root.present()?)
}

/// The content of one panel.
struct PanelContent<'a> {
    chart: &'a Chart,
    rows: Vec<&'a ReportRow>,
    subjects: Vec<&'a str>,
}

impl<'a> PanelContent<'a> {
    fn of(report: &'a BenchReport, chart: &'a Chart) -> Self {
        let rows: Vec<&ReportRow> = report.rows.iter().filter(|row| chart.cases.contains(&row.case)).collect();
        let mut subjects = Vec::new();
        for row in &rows {
            if row.subject != BOUND && !subjects.contains(&row.subject.as_str()) {
                subjects.push(row.subject.as_str());
            }
        }
        Self { chart, rows, subjects }
    }

    fn has_bound(&self) -> bool {
        self.rows.iter().any(|row| row.subject == BOUND)
    }

    fn value(&self, row: &ReportRow) -> f64 {
        if self.chart.measure == ChartMeasure::Ratio { row.ratio } else { row.value }
    }

    fn top(&self) -> f64 {
        let highest = self.rows.iter().map(|row| self.value(row)).fold(self.chart.level.unwrap_or(0.0), f64::max);
        if highest > 0.0 { highest * 1.08 } else { 1.0 }
    }

    /// The cases without the end, behind a colon, that all of them share and that the title has.
    fn labels(&self) -> Vec<&str> {
        let cases = &self.chart.cases;
        let parts = |case: &'a String| case.rsplit_once(": ");
        let shared = cases.first().and_then(parts).map(|(_, end)| end);
        let short = |case| parts(case).filter(|(_, end)| Some(*end) == shared).map(|(begin, _)| begin);
        let short: Option<Vec<&str>> = cases.iter().map(short).collect();
        short.unwrap_or_else(|| cases.iter().map(String::as_str).collect())
    }

    fn unit(&self) -> &str {
        match (self.chart.measure, self.rows.first()) {
            (ChartMeasure::Ratio, Some(row)) if self.rows.iter().all(|one| one.beside == row.beside) => &row.beside,
            (ChartMeasure::Ratio, _) => "the better peer",
            (ChartMeasure::Value, row) => row.map_or("", |row| row.unit),
        }
    }
}

fn draw_panel(root: &PlotArea<'_>, area: &PlotArea<'_>, content: &PanelContent<'_>) -> PlotOutcome {
    let groups = content.chart.cases.len() as f64;
    let mut panel = ChartBuilder::on(area)
        .margin(10)
        .margin_top(48)
        .x_label_area_size(30)
        .y_label_area_size(76)
        .build_cartesian_2d(0.0..groups, 0.0..content.top())?;
    let unit = match content.chart.measure {
        ChartMeasure::Value => content.unit().to_owned(),
        ChartMeasure::Ratio => format!("times {}", content.unit()),
    };
    panel
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(0)
        .y_desc(unit)
        .y_label_formatter(&|level| if content.top() < 10.0 { format!("{level:.1}") } else { format!("{level:.0}") })
        .axis_desc_style((FONT, 15))
        .label_style((FONT, 13))
        .light_line_style(WHITE)
        .draw()?;
    for row in &content.rows {
        draw_bar(&mut panel, content, row)?;
    }
    if let Some(level) = content.chart.level {
        panel.draw_series([PathElement::new(vec![(0.0, level), (groups, level)], BLACK.stroke_width(1))])?;
    }
    for (group, case) in content.labels().into_iter().enumerate() {
        let (x, y) = panel.backend_coord(&(group as f64 + 0.5, 0.0));
        let style = (FONT, 14).into_text_style(root).pos(middle());
        root.draw(&Text::new(case.to_owned(), (x, y + 8), style))?;
    }
    draw_head(area, content)
}

fn middle() -> plotters::style::text_anchor::Pos {
    use plotters::style::text_anchor::{HPos, Pos, VPos};
    Pos::new(HPos::Center, VPos::Top)
}

/// Draws the bar of a row, and the range of its ratio as far as it fits.
fn draw_bar(panel: &mut PlotPanel<'_, '_>, content: &PanelContent<'_>, row: &ReportRow) -> PlotOutcome {
    let group = content.chart.cases.iter().position(|case| *case == row.case).unwrap_or(0) as f64;
    if row.subject == BOUND {
        let (from, to) = ((group + 0.04, content.value(row)), (group + 0.96, content.value(row)));
        panel.draw_series([PathElement::new(vec![from, to], RED.stroke_width(2))])?;
        return Ok(());
    }
    let bar = content.subjects.iter().position(|subject| *subject == row.subject).unwrap_or(0);
    let width = 0.84 / content.subjects.len() as f64;
    let left = group + 0.08 + bar as f64 * width;
    let corners = [(left, 0.0), (left + width * 0.94, content.value(row))];
    panel.draw_series([Rectangle::new(corners, COLORS[bar % COLORS.len()].filled())])?;
    if content.chart.measure == ChartMeasure::Ratio && row.low < row.high {
        let (middle, top) = (left + width * 0.47, content.top());
        let range = vec![(middle, row.low.min(top)), (middle, row.high.min(top))];
        panel.draw_series([PathElement::new(range, BLACK.stroke_width(1))])?;
    }
    Ok(())
}

/// Draws the title and the legend.
fn draw_head(area: &PlotArea<'_>, content: &PanelContent<'_>) -> PlotOutcome {
    area.draw(&Text::new(content.chart.title.clone(), (12, 8), (FONT, 17)))?;
    let mut x = 76;
    for (bar, subject) in content.subjects.iter().enumerate() {
        let color = COLORS[bar % COLORS.len()];
        area.draw(&Rectangle::new([(x, 32), (x + 11, 43)], color.filled()))?;
        area.draw(&Text::new((*subject).to_owned(), (x + 16, 31), (FONT, 14)))?;
        x += 38 + 8 * subject.len() as i32;
    }
    if content.has_bound() {
        area.draw(&PathElement::new(vec![(x, 38), (x + 11, 38)], RED.stroke_width(2)))?;
        area.draw(&Text::new(BOUND.to_owned(), (x + 16, 31), (FONT, 14)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
