//! Reading the `.safetensors` files on a host.
//!
//! ```no_run
//! // As a firmware's build step does it.
//! let model = digits::load::load_model("data/digits-mlp.safetensors")?;
//! let test_set = digits::load::load_test_set("data/digits-test.safetensors")?;
//! let image = digits::image::encode(&model.lend(), &test_set.lend());
//! # Ok::<(), digits::load::LoadError>(())
//! ```

mod archive;
mod file;
mod format_error;
mod owned;

pub use file::{FILE_LIMIT, LoadCause, LoadError, load_model, load_test_set};
pub use format_error::FormatError;
pub use owned::{OwnedModel, OwnedTestSet};
