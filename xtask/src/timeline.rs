//! `cargo xtask timeline`: a picture of a trace, for a page. A viewer shows more.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::Value;

use crate::failure::Failure;

/// Pixels.
const WIDTH: f64 = 900.0;
const LEFT: f64 = 90.0;
const BAR: f64 = 16.0;
const CURVE: f64 = 40.0;
const GAP: f64 = 10.0;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A trace, as `cargo xtask demo --trace` writes it
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// Where the picture goes
    #[arg(value_name = "SVG")]
    picture: PathBuf,
    /// Microseconds after the first event at which it begins
    #[arg(long, value_name = "MICROS", default_value_t = 0)]
    from: u32,
    /// How many microseconds it shows; by default all that follow
    #[arg(long, value_name = "MICROS")]
    micros: Option<u32>,
}

/// Reads the trace and writes the picture.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let wrong = |path: &Path, what: &str| Failure::bad_input(format!("{}: {what}", path.display()));
    let text = std::fs::read_to_string(&args.trace)
        .map_err(|error| wrong(&args.trace, &error.to_string()))?;
    let events = serde_json::from_str::<Vec<Value>>(&text)
        .map_err(|error| wrong(&args.trace, &error.to_string()))?;
    let scene = Scene::read(&events).map_err(|what| wrong(&args.trace, &what))?;
    let from = scene.from + f64::from(args.from);
    let to = args
        .micros
        .map_or(scene.to, |micros| from + f64::from(micros));
    if to <= from {
        return Err(wrong(&args.trace, "nothing happens in that time"));
    }
    std::fs::write(&args.picture, scene.draw(from, to))
        .map_err(|error| wrong(&args.picture, &error.to_string()))?;
    Ok(ExitCode::SUCCESS)
}

/// A row's process and thread.
type Row = (u64, u64);

#[derive(Debug, PartialEq)]
struct Bar {
    name: String,
    from: f64,
    to: f64,
    depth: u32,
}

#[derive(Debug, Default, PartialEq)]
struct Scene {
    names: BTreeMap<Row, String>,
    rows: BTreeMap<Row, Vec<Bar>>,
    /// Bytes in use, from a time on.
    curve: Vec<(f64, f64)>,
    from: f64,
    to: f64,
}

impl Scene {
    fn read(events: &[Value]) -> Result<Self, String> {
        let mut scene = Self {
            from: f64::INFINITY,
            to: f64::NEG_INFINITY,
            ..Self::default()
        };
        let mut open = BTreeMap::<Row, Vec<(String, f64)>>::new();
        for (index, event) in events.iter().enumerate() {
            scene
                .take(event, &mut open)
                .ok_or_else(|| format!("event {index} is not one of ours: {event}"))?;
        }
        if scene.from > scene.to {
            return Err("no event has a time".to_owned());
        }
        Ok(scene)
    }

    fn take(&mut self, event: &Value, open: &mut BTreeMap<Row, Vec<(String, f64)>>) -> Option<()> {
        let row = (event["pid"].as_u64()?, event["tid"].as_u64()?);
        let (phase, name) = (event["ph"].as_str()?, event["name"].as_str()?.to_owned());
        if phase == "M" {
            if name == "thread_name" {
                let name = event["args"]["name"].as_str()?.to_owned();
                self.names.insert(row, name);
            }
            return Some(());
        }
        let at = event["ts"].as_f64()?;
        let mut to = at;
        match phase {
            "B" => open.entry(row).or_default().push((name, at)),
            "E" => {
                let open = open.get_mut(&row)?;
                let (name, from) = open.pop()?;
                let depth = u32::try_from(open.len()).ok()?;
                self.bar(
                    row,
                    Bar {
                        name,
                        from,
                        to,
                        depth,
                    },
                );
            }
            "X" => {
                to = at + event["dur"].as_f64()?;
                let (from, depth) = (at, 0);
                self.bar(
                    row,
                    Bar {
                        name,
                        from,
                        to,
                        depth,
                    },
                );
            }
            "C" => {
                let bytes = event["args"]
                    .as_object()?
                    .values()
                    .filter_map(Value::as_f64);
                self.curve.push((at, bytes.sum()));
            }
            _ => {}
        }
        self.from = self.from.min(at);
        self.to = self.to.max(to);
        Some(())
    }

    fn bar(&mut self, row: Row, bar: Bar) {
        self.rows.entry(row).or_default().push(bar);
    }

    fn draw(&self, from: f64, to: f64) -> String {
        let x = |at: f64| LEFT + (at.clamp(from, to) - from) / (to - from) * (WIDTH - LEFT - GAP);
        let (mut body, mut y) = (String::new(), GAP);
        for (row, bars) in &self.rows {
            let name = self.names.get(row).map_or("", String::as_str);
            label(&mut body, y, name);
            let deepest = bars.iter().map(|bar| bar.depth).max().unwrap_or(0);
            for bar in bars.iter().filter(|bar| bar.to > from && bar.from < to) {
                let (left, top) = (x(bar.from), y + BAR * f64::from(bar.depth));
                // Narrower than a pixel it would not be seen.
                let width = (x(bar.to) - left).max(0.6);
                let colour = colour(&bar.name);
                let micros = bar.to - bar.from;
                let name = escaped(&bar.name);
                let _ = writeln!(
                    body,
                    r#"<rect x="{left:.1}" y="{top:.0}" width="{width:.1}" height="{:.0}" fill="{colour}"><title>{name}: {micros:.1} µs</title></rect>"#,
                    BAR - 1.0
                );
            }
            y += BAR * f64::from(deepest + 1) + GAP;
        }
        self.draw_curve(&mut body, y, &x);
        y += CURVE + GAP;
        let micros = to - from;
        let mut legend = String::new();
        for (index, name) in ["write", "read", "blocked", "copy in", "copy out", "#run"]
            .iter()
            .enumerate()
        {
            #[expect(clippy::cast_precision_loss, reason = "six of them")]
            let left = LEFT + 90.0 * index as f64;
            let _ = writeln!(
                legend,
                r#"<rect x="{left:.0}" y="{y:.0}" width="10" height="10" fill="{}"/><text x="{:.0}" y="{:.0}">{}</text>"#,
                colour(name),
                left + 14.0,
                y + 10.0,
                name.trim_start_matches('#'),
            );
        }
        let height = y + 3.0 * GAP;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" font-family=\"sans-serif\" font-size=\"11\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{body}{legend}\
             <text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{micros:.0} µs</text>\n</svg>\n",
            WIDTH - GAP,
            y + 10.0
        )
    }

    fn draw_curve(&self, body: &mut String, y: f64, x: &impl Fn(f64) -> f64) {
        let most = self
            .curve
            .iter()
            .map(|(_, bytes)| *bytes)
            .fold(1.0, f64::max);
        label(body, y, "bytes");
        let floor = y + CURVE;
        let mut path = format!("M{LEFT:.1} {floor:.1}");
        for (at, bytes) in &self.curve {
            let (x, y) = (x(*at), floor - bytes / most * CURVE);
            let _ = write!(path, "H{x:.1}V{y:.1}");
        }
        let end = x(f64::INFINITY);
        let _ = writeln!(
            body,
            r##"<path d="{path}H{end:.1}V{floor:.1}Z" fill="#c9d6e8"><title>at most {most} bytes in tensors</title></path>"##
        );
    }
}

fn label(body: &mut String, y: f64, name: &str) {
    let (y, name) = (y + 11.0, escaped(name));
    let _ = writeln!(body, r#"<text x="{GAP}" y="{y:.0}">{name}</text>"#);
}

fn colour(name: &str) -> &'static str {
    match name {
        "read" => "#4c9f70",
        "write" => "#3f7cac",
        "blocked" => "#d1495b",
        "copy in" => "#95b8d1",
        "copy out" => "#a8d5ba",
        _ if name.starts_with('#') => "#edae49",
        _ => "#9a9a9a",
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn events() -> Vec<Value> {
        let Value::Array(events) = json!([
            {"ph": "M", "pid": 1, "tid": 3, "name": "thread_name", "args": {"name": "a<b"}},
            {"ph": "B", "pid": 1, "tid": 3, "ts": 10.0, "name": "write"},
            {"ph": "B", "pid": 1, "tid": 3, "ts": 12.0, "name": "copy in"},
            {"ph": "E", "pid": 1, "tid": 3, "ts": 14.0, "name": "copy in"},
            {"ph": "E", "pid": 1, "tid": 3, "ts": 20.0, "name": "write"},
            {"ph": "C", "pid": 1, "tid": 0, "ts": 20.0, "name": "bytes", "args": {"host": 1, "device": 2}},
            {"ph": "X", "pid": 2, "tid": 5, "ts": 15.0, "dur": 15.0, "name": "#1"},
        ]) else {
            unreachable!()
        };
        events
    }

    #[test]
    fn bars_nest_and_rows_have_names() {
        let scene = Scene::read(&events()).unwrap();
        let bar = |name: &str, from, to, depth| Bar {
            name: name.to_owned(),
            from,
            to,
            depth,
        };
        let threads = [bar("copy in", 12.0, 14.0, 1), bar("write", 10.0, 20.0, 0)];
        assert_eq!(scene.rows[&(1, 3)], threads);
        assert_eq!(scene.rows[&(2, 5)], [bar("#1", 15.0, 30.0, 0)]);
        assert_eq!(scene.names[&(1, 3)], "a<b");
        assert_eq!(scene.curve, [(20.0, 3.0)]);
        assert_eq!((scene.from, scene.to), (10.0, 30.0));
    }

    #[test]
    fn what_lies_outside_is_not_drawn_and_names_stay_text() {
        let scene = Scene::read(&events()).unwrap();
        let all = scene.draw(10.0, 30.0);
        assert!(all.contains("a&lt;b") && !all.contains("a<b"));
        assert_eq!(all.matches("<title>").count(), 4);
        let early = scene.draw(10.0, 15.0);
        assert!(!early.contains("<title>#1"), "{early}");
        assert!(early.contains("<title>write: 10.0 µs"), "{early}");
    }

    #[test]
    fn what_is_no_trace_is_refused_by_its_place() {
        let mut events = events();
        events.push(json!({"ph": "E", "pid": 9, "tid": 9, "ts": 1.0, "name": "read"}));
        let error = Scene::read(&events).unwrap_err();
        assert!(error.starts_with("event 7 is not one of ours: "), "{error}");
        assert_eq!(
            Scene::read(&events[..1]).unwrap_err(),
            "no event has a time"
        );
    }
}
