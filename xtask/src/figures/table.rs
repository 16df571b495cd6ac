//! Rows with goals, as a table for people and as JSON for machines.

use std::fmt::Write;

use serde_json::Value;

/// Figures of one kind, from one compiler.
#[derive(Debug)]
pub(crate) struct Section {
    /// `instructions`, `text` or `types`.
    pub(crate) kind: &'static str,
    /// What one of them is: `instructions` or `bytes`.
    pub(crate) unit: &'static str,
    pub(crate) target: String,
    pub(crate) compiler: String,
    pub(crate) rows: Vec<Row>,
}

/// One figure.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) value: u64,
    /// What the same would cost without checks, or what a peer costs.
    pub(crate) floor: Option<u64>,
    /// The most that is wanted.
    pub(crate) goal: Option<u64>,
    /// What a reader should know besides.
    pub(crate) note: String,
}

impl Row {
    fn difference(&self) -> Option<i128> {
        self.floor
            .map(|floor| i128::from(self.value) - i128::from(floor))
    }

    fn met(&self) -> Option<bool> {
        self.goal.map(|goal| self.value <= goal)
    }
}

impl Section {
    /// A heading and one line a row.
    pub(crate) fn table(&self) -> String {
        let width = self.rows.iter().map(|row| row.name.len()).max();
        let width = width.unwrap_or(0).max(self.kind.len());
        let mut table = format!("{} on {}, {}\n", self.kind, self.target, self.compiler);
        let _ = writeln!(
            table,
            "{:width$}  {:>12}  {:>6}  {:>10}  {:>6}",
            "", self.unit, "floor", "difference", "goal"
        );
        for row in &self.rows {
            let number = |number: Option<u64>| number.map_or("-".to_owned(), |n| n.to_string());
            let difference = row
                .difference()
                .map_or("-".to_owned(), |n| format!("{n:+}"));
            let met = match row.met() {
                None => "",
                Some(true) => "met",
                Some(false) => "not met",
            };
            let line = format!(
                "{:width$}  {:>12}  {:>6}  {difference:>10}  {:>6}  {met:7}  {}",
                row.name,
                row.value,
                number(row.floor),
                number(row.goal),
                row.note
            );
            table.push_str(line.trim_end());
            table.push('\n');
        }
        table
    }
}

/// `{"figures":[…],"missing":[…]}`, one figure a line.
pub(crate) fn json(sections: &[Section], missing: &[String]) -> String {
    let mut json = String::from("{\"figures\":[");
    let rows = sections
        .iter()
        .flat_map(|section| section.rows.iter().map(move |row| (section, row)));
    for (index, (section, row)) in rows.enumerate() {
        let separator = if index == 0 { "\n" } else { ",\n" };
        let text = |text: &str| Value::from(text);
        let difference = row
            .difference()
            .map(|n| i64::try_from(n).unwrap_or(i64::MAX));
        // Writing to a string cannot fail.
        let _ = write!(
            json,
            r#"{separator}{{"kind":{},"target":{},"compiler":{},"name":{},"unit":{},"value":{},"floor":{},"difference":{},"goal":{},"met":{},"note":{}}}"#,
            text(section.kind),
            text(&section.target),
            text(&section.compiler),
            text(&row.name),
            text(section.unit),
            row.value,
            Value::from(row.floor),
            Value::from(difference),
            Value::from(row.goal),
            Value::from(row.met()),
            text(&row.note),
        );
    }
    let _ = writeln!(json, "\n],\"missing\":{}}}", Value::from(missing.to_vec()));
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section() -> Section {
        let row = |name: &str, value, floor, goal| Row {
            name: name.to_owned(),
            value,
            floor,
            goal,
            note: String::new(),
        };
        Section {
            kind: "instructions",
            unit: "instructions",
            target: "x86_64-unknown-linux-gnu".to_owned(),
            compiler: "rustc 1.95.0".to_owned(),
            rows: vec![
                row("floor/lifo", 20, None, None),
                row("unique/unsync", 32, Some(20), Some(32)),
                row("shared/unsync", 38, Some(20), Some(37)),
                row("clone+drop/unsync", 9, Some(11), None),
            ],
        }
    }

    #[test]
    fn a_goal_is_met_up_to_and_including_it() {
        let expected = "\
instructions on x86_64-unknown-linux-gnu, rustc 1.95.0
                   instructions   floor  difference    goal
floor/lifo                   20       -           -       -
unique/unsync                32      20         +12      32  met
shared/unsync                38      20         +18      37  not met
clone+drop/unsync             9      11          -2       -
";
        assert_eq!(section().table(), expected);
    }

    #[test]
    fn the_json_says_the_same() {
        let json = json(&[section()], &["thumbv6m-none-eabi: no \"lld\"".to_owned()]);
        let value: Value = serde_json::from_str(&json).unwrap();
        let figures = value["figures"].as_array().unwrap();
        assert_eq!(figures.len(), 4);
        assert_eq!(figures[0]["floor"], Value::Null);
        assert_eq!(figures[0]["met"], Value::Null);
        assert_eq!(figures[1]["met"], true);
        assert_eq!(figures[2]["met"], false);
        assert_eq!(figures[2]["difference"], 18);
        assert_eq!(figures[3]["difference"], -2);
        assert_eq!(value["missing"][0], "thumbv6m-none-eabi: no \"lld\"");
        let empty: Value = serde_json::from_str(&super::json(&[], &[])).unwrap();
        assert_eq!(empty["figures"], Value::Array(Vec::new()));
    }
}
