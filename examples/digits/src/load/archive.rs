//! Taking exactly the wanted tensors out of a `.safetensors` file.

use wharf_meta::archive::Archive;
use wharf_meta::{DType, ShortName};

use super::FormatError;

/// What a file must hold under one name.
pub(super) struct Wanted {
    pub(super) field: &'static str,
    pub(super) dtype: DType,
    /// `None` is a dimension that is free.
    pub(super) shape: &'static [Option<usize>],
}

/// The bytes of each wanted tensor, in the order of `wanted`, from a file that holds nothing else.
pub(super) fn read<'f, const N: usize>(
    file: &'f [u8],
    wanted: &[Wanted; N],
) -> Result<[&'f [u8]; N], FormatError> {
    let archive = Archive::parse(file)?;
    let belongs = |name| wanted.iter().any(|wanted| wanted.field == name);
    if let Some(stored) = archive.iter().find(|stored| !belongs(stored.name())) {
        return Err(FormatError::UnexpectedTensor {
            field: ShortName::new(stored.name()),
            expected: wanted.iter().map(|wanted| wanted.field).collect(),
        });
    }
    let mut found = [&[][..]; N];
    for (slot, wanted) in found.iter_mut().zip(wanted) {
        *slot = take(&archive, wanted)?;
    }
    Ok(found)
}

/// The bytes of one tensor, if it is what is wanted.
fn take<'f>(archive: &Archive<'f>, wanted: &Wanted) -> Result<&'f [u8], FormatError> {
    let field = wanted.field;
    let Ok(stored) = archive.get(field) else {
        return Err(FormatError::MissingTensor { field });
    };
    if stored.dtype() != wanted.dtype {
        return Err(FormatError::WrongDtype {
            field,
            expected: wanted.dtype,
            found: stored.stored_dtype(),
        });
    }
    let shape = stored.shape();
    let fits = |(size, wanted): (&usize, &Option<usize>)| wanted.is_none_or(|w| w == *size);
    if shape.rank() != wanted.shape.len() || !shape.iter().zip(wanted.shape).all(fits) {
        return Err(FormatError::WrongShape {
            field,
            expected: wanted.shape,
            found: *shape,
        });
    }
    Ok(stored.bytes())
}
