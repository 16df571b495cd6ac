//! The index of a dump: which file is which tensor, as JSON.

use std::fmt::Write;
use std::string::String;

use crate::{DType, Shape};

/// One file of a dump.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) name: String,
    pub(super) file: String,
    /// The bytes of the tensor, without a header.
    pub(super) size: usize,
    pub(super) dtype: DType,
    pub(super) shape: Option<Shape>,
    /// The sum of these bytes.
    pub(super) adler32: u32,
}

/// The text of the index. Nothing in it but names needs escaping.
pub(super) fn text(model: Option<&str>, written: &[Written]) -> String {
    let mut text = String::from("{\n  \"model\": ");
    match model {
        Some(name) => string(&mut text, name),
        None => text.push_str("null"),
    }
    text.push_str(",\n  \"files\": [");
    for (i, file) in written.iter().enumerate() {
        text.push_str(if i == 0 {
            "\n    {\"name\": "
        } else {
            ",\n    {\"name\": "
        });
        string(&mut text, &file.name);
        // Writing to a string does not fail.
        let _ = write!(
            text,
            ", \"file\": \"{}\", \"size\": {}, \"dtype\": \"{}\", \"shape\": ",
            file.file, file.size, file.dtype
        );
        match &file.shape {
            Some(shape) => _ = write!(text, "{shape}"),
            None => text.push_str("null"),
        }
        let _ = write!(text, ", \"adler32\": \"{:08x}\"}}", file.adler32);
    }
    text.push_str("\n  ]\n}\n");
    text
}

/// Appends `value` as a JSON string (RFC 8259, section 7): what must be escaped is, and whatever is not ASCII too, so that
/// nothing in a terminal takes it for a command.
fn string(text: &mut String, value: &str) {
    text.push('"');
    for unit in value.encode_utf16() {
        match u8::try_from(unit) {
            Ok(byte @ (b'"' | b'\\')) => {
                text.push('\\');
                text.push(char::from(byte));
            }
            Ok(byte @ b' '..=b'~') => text.push(char::from(byte)),
            // Characters beyond 16 bits are two escapes.
            _ => _ = write!(text, "\\u{unit:04x}"),
        }
    }
    text.push('"');
}
