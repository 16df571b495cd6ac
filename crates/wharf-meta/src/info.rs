//! What a model says about its inputs and outputs.

use core::fmt;
use core::iter::Chain;
use core::slice;

use crate::{DType, Name, NameTooLong, Shape, ShapeError, ShortName, UnknownName};

/// Whether a tensor goes into a model or comes out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub enum Usage {
    /// Goes in.
    In = 0,
    /// Comes out.
    Out = 1,
}

impl Usage {
    /// The number, as it stands in files and C interfaces.
    #[inline]
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::In => "input",
            Self::Out => "output",
        })
    }
}

/// One tensor that a model takes or gives.
///
/// Can be made in a [`constant`](Self::constant), and takes about 350 bytes on a 64-bit host, 256 of them for the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct TensorInfo {
    name: Name,
    usage: Usage,
    dtype: DType,
    shape: Shape,
    size: usize,
}

impl TensorInfo {
    /// A tensor of `dtype` elements along these `axes`.
    ///
    /// # Errors
    /// The name is too long, the shape has too many axes or bytes, or `dtype` has no size (see
    /// [`opaque`](Self::opaque)).
    pub const fn new(
        name: &str,
        usage: Usage,
        dtype: DType,
        axes: &[usize],
    ) -> Result<Self, InfoError> {
        let name = match Name::new(name) {
            Ok(name) => name,
            Err(error) => return Err(InfoError::Name(error)),
        };
        let shape = match Shape::new(axes) {
            Ok(shape) => shape,
            Err(error) => return Err(InfoError::Shape(error)),
        };
        let size = match shape.bytes(dtype) {
            Ok(size) => size,
            Err(error) => return Err(InfoError::Shape(error)),
        };
        Ok(Self {
            name,
            usage,
            dtype,
            shape,
            size,
        })
    }

    /// A tensor of which only the bytes are known: of [`DType::Unknown`], along one axis of `size`.
    ///
    /// # Errors
    /// The name is too long.
    pub const fn opaque(name: &str, usage: Usage, size: usize) -> Result<Self, InfoError> {
        match Self::new(name, usage, DType::U8, &[size]) {
            Ok(mut info) => {
                info.dtype = DType::Unknown;
                Ok(info)
            }
            Err(error) => Err(error),
        }
    }

    /// A tensor that goes in; see [`new`](Self::new).
    ///
    /// # Errors
    /// As there.
    pub const fn input(name: &str, dtype: DType, axes: &[usize]) -> Result<Self, InfoError> {
        Self::new(name, Usage::In, dtype, axes)
    }

    /// A tensor that comes out; see [`new`](Self::new).
    ///
    /// # Errors
    /// As there.
    pub const fn output(name: &str, dtype: DType, axes: &[usize]) -> Result<Self, InfoError> {
        Self::new(name, Usage::Out, dtype, axes)
    }

    /// What the functions above have made, for a `static` or a `const`, in which there is neither `?` nor `Result::unwrap`.
    ///
    /// ```
    /// use wharf_meta::{DType, TensorInfo};
    ///
    /// static INPUTS: [TensorInfo; 1] =
    ///     [TensorInfo::constant(TensorInfo::input("image", DType::U8, &[28, 28]))];
    /// assert_eq!(INPUTS[0].size(), 784);
    /// ```
    ///
    /// ```compile_fail,E0080
    /// # use wharf_meta::{DType, TensorInfo};
    /// static INPUT: TensorInfo =
    ///     TensorInfo::constant(TensorInfo::input("image", DType::F32, &[usize::MAX])); // error: too many bytes
    /// ```
    ///
    /// # Panics
    /// It was refused. In a constant that is an error of the compiler.
    #[must_use]
    #[allow(
        clippy::panic,
        reason = "documented: an error of the compiler where it belongs"
    )]
    pub const fn constant(made: Result<Self, InfoError>) -> Self {
        match made {
            Ok(info) => info,
            Err(InfoError::Name(_)) => panic!("the name is too long"),
            Err(InfoError::Shape(_)) => {
                panic!("the shape has too many axes or bytes, or no size")
            }
        }
    }

    /// What it is called.
    #[must_use]
    pub const fn name(&self) -> &Name {
        &self.name
    }

    /// Whether it goes in or comes out.
    #[must_use]
    pub const fn usage(&self) -> Usage {
        self.usage
    }

    /// The type of its elements.
    #[must_use]
    pub const fn dtype(&self) -> DType {
        self.dtype
    }

    /// Its shape.
    #[must_use]
    pub const fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Its bytes.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.size
    }
}

/// Why a tensor cannot be described so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum InfoError {
    /// The name is too long.
    Name(NameTooLong),
    /// The shape has too many axes or bytes, or no size.
    Shape(ShapeError),
}

impl fmt::Display for InfoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(error) => error.fmt(f),
            Self::Shape(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for InfoError {}

impl From<NameTooLong> for InfoError {
    fn from(error: NameTooLong) -> Self {
        Self::Name(error)
    }
}

impl From<ShapeError> for InfoError {
    fn from(error: ShapeError) -> Self {
        Self::Shape(error)
    }
}

/// The tensors of a [`ModelTensors`]: inputs, then outputs.
pub type InfoIter<'a> = Chain<slice::Iter<'a, TensorInfo>, slice::Iter<'a, TensorInfo>>;

/// All tensors of a model: its inputs, then its outputs. Borrowed, so they may be a constant, or lie in an array of any kind.
///
/// No two inputs have one name, nor have two outputs; an input and an output may.
///
/// ```
/// use wharf_meta::{DType, ModelTensors, TensorInfo};
///
/// let infos = [
///     TensorInfo::input("image", DType::U8, &[1, 64])?,
///     TensorInfo::output("scores", DType::F32, &[1, 10])?,
/// ];
/// let model = ModelTensors::new(&infos)?;
/// assert_eq!(model.output("scores")?.size(), 40);
/// assert_eq!(model.input("scores").unwrap_err().to_string(), "there is no tensor `scores`");
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ModelTensors<'a> {
    inputs: &'a [TensorInfo],
    outputs: &'a [TensorInfo],
}

impl<'a> ModelTensors<'a> {
    /// Takes `infos` as a model's tensors. The time it takes grows with the square of their number.
    ///
    /// # Errors
    /// An input stands behind an output ([`inputs_first`](Self::inputs_first) puts them right), or two tensors of one usage
    /// have one name.
    pub const fn new(infos: &'a [TensorInfo]) -> Result<Self, ModelError> {
        let mut inputs = 0;
        // By hand, because iterators do not run in constants.
        let mut i = 0;
        while i < infos.len() {
            if let Usage::In = infos[i].usage {
                if inputs < i {
                    return Err(ModelError::InputBehindOutput { index: i });
                }
                inputs += 1;
            }
            let mut before = 0;
            while before < i {
                if infos[before].usage as u8 == infos[i].usage as u8
                    && same(infos[before].name.as_bytes(), infos[i].name.as_bytes())
                {
                    return Err(ModelError::NameTwice {
                        first: before,
                        second: i,
                    });
                }
                before += 1;
            }
            i += 1;
        }
        let (inputs, outputs) = infos.split_at(inputs);
        Ok(Self { inputs, outputs })
    }

    /// Moves the inputs before the outputs, each in the order that they were in.
    pub fn inputs_first(infos: &mut [TensorInfo]) {
        let mut inputs = 0;
        for i in 0..infos.len() {
            if infos[i].usage == Usage::In {
                infos[inputs..=i].rotate_right(1);
                inputs += 1;
            }
        }
    }

    /// What goes in.
    #[must_use]
    pub const fn inputs(&self) -> &'a [TensorInfo] {
        self.inputs
    }

    /// What comes out.
    #[must_use]
    pub const fn outputs(&self) -> &'a [TensorInfo] {
        self.outputs
    }

    /// The input of this name.
    ///
    /// # Errors
    /// There is none.
    pub fn input(&self, name: &str) -> Result<&'a TensorInfo, UnknownName> {
        find(self.inputs, name)
    }

    /// The output of this name.
    ///
    /// # Errors
    /// There is none.
    pub fn output(&self, name: &str) -> Result<&'a TensorInfo, UnknownName> {
        find(self.outputs, name)
    }

    /// Inputs, then outputs.
    pub fn iter(&self) -> InfoIter<'a> {
        self.inputs.iter().chain(self.outputs)
    }

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        // No wrap: they were one slice.
        self.inputs.len() + self.outputs.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<'a> IntoIterator for ModelTensors<'a> {
    type Item = &'a TensorInfo;
    type IntoIter = InfoIter<'a>;
    fn into_iter(self) -> InfoIter<'a> {
        self.iter()
    }
}

fn find<'a>(infos: &'a [TensorInfo], name: &str) -> Result<&'a TensorInfo, UnknownName> {
    let named = |info: &&TensorInfo| info.name == *name;
    infos
        .iter()
        .find(named)
        .ok_or_else(|| UnknownName::new(name))
}

/// `==` of slices, in a constant.
const fn same(a: &[u8], b: &[u8]) -> bool {
    let mut i = 0;
    while i < a.len() && i < b.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    a.len() == b.len()
}

/// Why these are not the tensors of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum ModelError {
    /// Inputs come first, and this one does not.
    InputBehindOutput {
        /// Its index.
        index: usize,
    },
    /// Two tensors of one usage have one name.
    NameTwice {
        /// The index of the one.
        first: usize,
        /// The index of the other.
        second: usize,
    },
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InputBehindOutput { index } => {
                write!(f, "tensor {index} is an input and stands behind an output")
            }
            Self::NameTwice { first, second } => {
                write!(f, "tensors {first} and {second} have one name")
            }
        }
    }
}

impl core::error::Error for ModelError {}

/// Why a set does not fit a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum BindError {
    /// The set has no tensor of this name.
    Missing {
        /// The name.
        name: ShortName,
        /// What the model wants it for.
        usage: Usage,
        /// The bytes that it must have.
        expected: usize,
    },
    /// The tensor has another size than the model says.
    Size {
        /// The name.
        name: ShortName,
        /// What the model wants it for.
        usage: Usage,
        /// The bytes that it must have.
        expected: usize,
        /// The bytes that it has.
        found: usize,
    },
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing {
                name,
                usage,
                expected,
            } => write!(f, "{usage} {name} of {expected} bytes is not in the set"),
            Self::Size {
                name,
                usage,
                expected,
                found,
            } => write!(
                f,
                "{usage} {name} takes {expected} bytes, the tensor has {found}"
            ),
        }
    }
}

impl core::error::Error for BindError {}
