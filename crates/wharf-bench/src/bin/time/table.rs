//! Rows with goals, as a table for people and as JSON for machines.

use std::fmt::Write;

/// Which way a goal is met.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Goal {
    /// The design sets none.
    No,
    /// A ratio of times: so much, or less.
    AtMost(f64),
    /// A ratio of throughputs: so much, or more.
    AtLeast(f64),
    /// Nanoseconds over what it is compared with: so many they are, and so many they may be.
    Over(f64, f64),
}

/// A case, and what it is beside one floor or peer.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// Of one time; of nothing, if it could not be measured.
    pub(crate) nanoseconds: Option<f64>,
    /// What it is compared with; empty: nothing.
    pub(crate) beside: &'static str,
    pub(crate) ratio: Option<f64>,
    pub(crate) goal: Goal,
    /// What a reader should know besides.
    pub(crate) note: String,
}

impl Row {
    fn met(&self) -> Option<bool> {
        // As it is printed, so that no reader sees a goal missed by nothing.
        let ratio = (self.ratio? * 100.0).round() / 100.0;
        match self.goal {
            Goal::No => None,
            Goal::AtMost(most) => Some(ratio <= most),
            Goal::AtLeast(least) => Some(ratio >= least),
            Goal::Over(over, most) => Some((over * 100.0).round() / 100.0 <= most),
        }
    }

    fn verdict(&self) -> &'static str {
        match self.met() {
            None => "",
            Some(true) => "met",
            Some(false) => "not met",
        }
    }
}

pub(crate) fn text(rows: &[Row]) -> String {
    let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
    let mut table = format!(
        "{:width$}  {:>8}  {:>6}  {:>7}\n",
        "", "ns", "ratio", "goal"
    );
    for row in rows {
        let ratio = row
            .ratio
            .map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
        let goal = match row.goal {
            Goal::No => "-".to_owned(),
            Goal::AtMost(most) => format!("<= {most:.2}"),
            Goal::AtLeast(least) => format!(">= {least:.2}"),
            Goal::Over(_, most) => format!("+{most:.0} ns"),
        };
        let beside = match row.beside {
            "" => String::new(),
            beside => format!("beside {beside}"),
        };
        let nanoseconds = row
            .nanoseconds
            .map_or("-".to_owned(), |ns| format!("{ns:.2}"));
        let line = format!(
            "{:width$}  {nanoseconds:>8}  {ratio:>6}  {goal:>7}  {:7}  {beside}  {}",
            row.name,
            row.verdict(),
            row.note
        );
        let _ = writeln!(table, "{}", line.trim_end());
    }
    table
}

/// `{"times":[…]}`, one row a line. Names hold nothing that would have to be escaped.
pub(crate) fn json(rows: &[Row]) -> String {
    let line = |row: &Row| {
        let met = row.met().map_or("null".to_owned(), |met| met.to_string());
        let ratio = row
            .ratio
            .map_or("null".to_owned(), |ratio| format!("{ratio:.4}"));
        let nanoseconds = row
            .nanoseconds
            .map_or("null".to_owned(), |ns| format!("{ns:.4}"));
        let goal = match row.goal {
            Goal::No => "null".to_owned(),
            Goal::AtMost(most) => format!(r#"{{"at_most":{most}}}"#),
            Goal::AtLeast(least) => format!(r#"{{"at_least":{least}}}"#),
            Goal::Over(over, most) => format!(r#"{{"over":{over:.4},"at_most_over":{most}}}"#),
        };
        format!(
            r#"{{"name":"{}","nanoseconds":{nanoseconds},"beside":"{}","ratio":{ratio},"goal":{goal},"met":{met},"note":"{}"}}"#,
            row.name, row.beside, row.note
        )
    };
    let lines: Vec<String> = rows.iter().map(line).collect();
    format!("{{\"times\":[\n{}\n]}}\n", lines.join(",\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ratio: f64, goal: Goal) -> Row {
        Row {
            name: "x".to_owned(),
            nanoseconds: Some(1.5),
            beside: "y",
            ratio: Some(ratio),
            goal,
            note: String::new(),
        }
    }

    #[test]
    fn goals_are_met_up_to_and_including_them() {
        assert_eq!(row(1.3, Goal::AtMost(1.3)).met(), Some(true));
        assert_eq!(row(1.304, Goal::AtMost(1.3)).met(), Some(true));
        assert_eq!(row(1.31, Goal::AtMost(1.3)).met(), Some(false));
        assert_eq!(row(1.8, Goal::AtLeast(1.8)).met(), Some(true));
        assert_eq!(row(1.7, Goal::AtLeast(1.8)).met(), Some(false));
        assert_eq!(row(9.0, Goal::No).met(), None);
        assert_eq!(row(9.0, Goal::Over(8.0, 8.0)).met(), Some(true));
        assert_eq!(row(1.0, Goal::Over(8.01, 8.0)).met(), Some(false));
    }

    #[test]
    fn table_and_json_say_the_same() {
        let rows = [row(1.31, Goal::AtMost(1.3))];
        let expected =
            "         ns   ratio     goal\nx      1.50    1.31  <= 1.30  not met  beside y\n";
        assert_eq!(text(&rows), expected);
        let expected = concat!(
            "{\"times\":[\n",
            r#"{"name":"x","nanoseconds":1.5000,"beside":"y","ratio":1.3100,"goal":{"at_most":1.3},"met":false,"note":""}"#,
            "\n]}\n"
        );
        assert_eq!(json(&rows), expected);
    }

    #[test]
    fn what_could_not_be_measured_meets_nothing() {
        let row = Row {
            nanoseconds: None,
            ratio: None,
            ..row(0.0, Goal::AtLeast(1.8))
        };
        assert_eq!(row.met(), None);
        assert!(
            text(std::slice::from_ref(&row))
                .ends_with("x         -       -  >= 1.80           beside y\n")
        );
        assert!(json(&[row]).contains(r#""nanoseconds":null,"beside":"y","ratio":null"#));
    }
}
