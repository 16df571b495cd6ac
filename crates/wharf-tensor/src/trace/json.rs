//! What little of JSON a trace needs.

use core::fmt::{self, Write};
use core::time::Duration;

/// Text as a JSON string, quotes included: whatever is in it stays inside of them.
pub(super) struct Quoted<'a>(pub(super) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for char in self.0.chars() {
            match char {
                '"' | '\\' => write!(f, "\\{char}")?,
                '\0'..='\x1f' | '\x7f' => write!(f, "\\u{:04x}", u32::from(char))?,
                _ => f.write_char(char)?,
            }
        }
        f.write_char('"')
    }
}

/// A time in the format's unit, which is a microsecond, to the nanosecond.
pub(super) struct Micros(pub(super) Duration);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        write!(f, "{}.{:03}", nanos / 1000, nanos % 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn what_would_leave_a_string_does_not() {
        let quoted = Quoted("a\"b\\c\n\0\u{7f}é🚢").to_string();
        assert_eq!(quoted, r#""a\"b\\c\u000a\u0000\u007fé🚢""#);
        assert_eq!(Quoted("").to_string(), r#""""#);
    }

    #[test]
    fn times_are_microseconds_to_the_nanosecond() {
        let micros = |duration| Micros(duration).to_string();
        assert_eq!(micros(Duration::ZERO), "0.000");
        assert_eq!(micros(Duration::from_nanos(1_002_003)), "1002.003");
        assert_eq!(micros(Duration::MAX), "18446744073709551615999999.999");
    }
}
