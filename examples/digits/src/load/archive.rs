//! Taking exactly the wanted tensors out of a `.safetensors` file.

use std::string::ToString;

use safetensors::tensor::TensorInfo;
use safetensors::{Dtype, SafeTensors};
use serde::Deserialize;

use super::FormatError;
use super::header::{self, Entries};

/// The one name in a header that is no tensor.
const METADATA: &str = "__metadata__";

/// What a file must hold under one name.
pub(super) struct Wanted {
    pub(super) field: &'static str,
    pub(super) dtype: Dtype,
    /// `None` is a dimension that is free.
    pub(super) shape: &'static [Option<usize>],
}

/// The bytes of each wanted tensor, in the order of `wanted`, from a file that holds nothing else.
pub(super) fn read<'f, const N: usize>(
    file: &'f [u8],
    wanted: &[Wanted; N],
) -> Result<[&'f [u8]; N], FormatError> {
    let (entries, data) = header::split(file)?;
    check_names(&entries, wanted)?;
    let mut spans = [("", 0, 0); N];
    for (span, wanted) in spans.iter_mut().zip(wanted) {
        let (begin, end) = check_entry(&entries, wanted, data.len())?;
        *span = (wanted.field, begin, end);
    }
    check_cover(spans, data.len())?;

    let refused = |error| FormatError::Refused {
        reason: header::shown(&error),
    };
    let tensors = SafeTensors::deserialize(file).map_err(refused)?;
    let mut found = [&[][..]; N];
    for (slot, wanted) in found.iter_mut().zip(wanted) {
        *slot = tensors.tensor(wanted.field).map_err(refused)?.data();
    }
    Ok(found)
}

/// No name twice, and none that does not belong.
fn check_names<const N: usize>(entries: &Entries, wanted: &[Wanted; N]) -> Result<(), FormatError> {
    let names = || wanted.iter().map(|wanted| wanted.field);
    for (i, (name, _)) in entries.0.iter().enumerate() {
        if name != METADATA && !names().any(|wanted| wanted == name) {
            let field = header::shown(name);
            return Err(FormatError::UnexpectedTensor {
                field,
                expected: names().collect(),
            });
        }
        // Looks back over few names: each before this one was wanted, and was there once.
        if entries.0[..i].iter().any(|(earlier, _)| earlier == name) {
            return Err(FormatError::DuplicateTensor {
                field: name.clone(),
            });
        }
    }
    Ok(())
}

/// Holds one entry against what is wanted, and returns its offsets.
fn check_entry(
    entries: &Entries,
    wanted: &Wanted,
    available: usize,
) -> Result<(usize, usize), FormatError> {
    let &Wanted {
        field,
        dtype,
        shape,
    } = wanted;
    let Some((_, entry)) = entries.0.iter().find(|(name, _)| name == field) else {
        return Err(FormatError::MissingTensor { field });
    };
    let info = TensorInfo::deserialize(entry).map_err(|error| FormatError::BadEntry {
        field,
        reason: header::shown(&error),
    })?;

    if info.dtype != dtype {
        let (expected, found) = (name_of(dtype), info.dtype.to_string());
        return Err(FormatError::WrongDtype {
            field,
            expected,
            found,
        });
    }
    let fits = |(size, wanted): (&usize, &Option<usize>)| wanted.is_none_or(|w| w == *size);
    if info.shape.len() != shape.len() || !info.shape.iter().zip(shape).all(fits) {
        let mut found = info.shape;
        found.truncate(FormatError::SHAPE_SHOWN);
        return Err(FormatError::WrongShape {
            field,
            expected: shape,
            found,
        });
    }
    let (begin, end) = info.data_offsets;
    let Some(found) = end.checked_sub(begin) else {
        return Err(FormatError::OffsetsReversed { field, begin, end });
    };
    if end > available {
        return Err(FormatError::OffsetsPastEnd {
            field,
            end,
            available,
        });
    }
    // Saturating is enough: the file is shorter than the largest `usize`, so a size that does not fit
    // one cannot equal the span.
    let expected = info
        .shape
        .iter()
        .fold(dtype.bitsize() / 8, |n, size| n.saturating_mul(*size));
    if expected != found {
        return Err(FormatError::WrongExtent {
            field,
            expected,
            found,
        });
    }
    Ok((begin, end))
}

/// The tensors fill the data: each byte belongs to exactly one.
fn check_cover<const N: usize>(
    mut spans: [(&'static str, usize, usize); N],
    available: usize,
) -> Result<(), FormatError> {
    spans.sort_unstable_by_key(|&(_, begin, end)| (begin, end));
    let mut previous_end = 0;
    for (field, begin, end) in spans {
        if begin < previous_end {
            return Err(FormatError::Overlap {
                field,
                begin,
                previous_end,
            });
        }
        if begin > previous_end {
            return Err(FormatError::Gap {
                field,
                begin,
                previous_end,
            });
        }
        previous_end = end;
    }
    if previous_end != available {
        return Err(FormatError::TrailingBytes {
            end: previous_end,
            available,
        });
    }
    Ok(())
}

/// How the format spells a type that is wanted here.
const fn name_of(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::F32 => "F32",
        _ => "U8",
    }
}
