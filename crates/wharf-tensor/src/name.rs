//! Naming tensors.

use core::alloc::Layout;
use core::fmt;

use wharf_backend::{BackendRef, Erases, Returned};

use crate::identity::{IdentityRef, Name};
use crate::{Target, Tensor, TensorError};

impl<T: Target> Tensor<T> {
    /// Where the block of an identity comes from the target's block source: its size and alignment, where the name is
    /// [static](Self::named_static). A [copied](Self::named) name follows behind it in the same block.
    pub const IDENTITY_BLOCK: Layout = IdentityRef::<T>::BLOCK;

    /// Gives this tensor a name, which is copied, and a [completion count](Self::completions): an identity, which its clones
    /// share from then on. It is listed in the target's [directory](crate::Directory) until the last of them is gone. If it had one, that
    /// stays with the clones of before.
    ///
    /// Names are data: they may hold anything, need not be unique, and are escaped where they are displayed.
    ///
    /// ```
    /// # use wharf_backend::Heap;
    /// # use wharf_source::HeapSource;
    /// # use wharf_sync::Unsync;
    /// # use wharf_tensor::{Parts, Tensor};
    /// # let target = Parts::<Heap<Unsync>, HeapSource>::new(HeapSource);
    /// let layer = 3;
    /// let weights = Tensor::alloc(&target, Heap::new(), 64)?.named(&target, &format!("conv{layer}.weight"))?;
    /// assert_eq!(weights.clone().name(), Some("conv3.weight"));
    /// assert_eq!(weights.slice(..8)?.name(), None, "slices are anonymous, and may have names of their own");
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The tensor is empty, or the block source refused. The tensor comes back as it was.
    pub fn named(self, target: &T, name: &str) -> Result<Self, Returned<Self, TensorError>> {
        self.identified(target, Name::Copied(name))
    }

    /// [`named`](Self::named), without a copy: the block is always an [`IDENTITY_BLOCK`](Self::IDENTITY_BLOCK), so that a pool needs
    /// one size class for all names.
    ///
    /// # Errors
    /// As there.
    pub fn named_static(
        self,
        target: &T,
        name: &'static str,
    ) -> Result<Self, Returned<Self, TensorError>> {
        self.identified(target, Name::Static(name))
    }

    fn identified(
        mut self,
        target: &T,
        name: Name<'_>,
    ) -> Result<Self, Returned<Self, TensorError>> {
        let window = (self.offset(), self.len());
        let identity = self
            .storage()
            .and_then(|storage| IdentityRef::new(target, storage, window, name));
        match identity {
            Ok(identity) => {
                self.identify(identity);
                Ok(self)
            }
            Err(error) => Err(Returned::new(error, self)),
        }
    }

    /// [`alloc`](Self::alloc) and [`named`](Self::named) in one, with an error that says which tensor it is that there was no memory
    /// for.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use wharf_backend::StaticPool;
    /// # use wharf_source::HeapSource;
    /// # use wharf_sync::Unsync;
    /// # use wharf_tensor::{Parts, Tensor};
    /// # type Memory = &'static StaticPool<Unsync, 64, 1>;
    /// # let memory: Memory = Box::leak(Box::new(StaticPool::new()));
    /// # let target = Parts::<Memory, HeapSource>::new(HeapSource);
    /// let weight = Tensor::alloc_named(&target, memory, 64, "conv1.weight")?;
    /// let refused = Tensor::alloc_named(&target, memory, 16, "conv1.bias").unwrap_err();
    /// assert_eq!(refused.to_string(), "conv1.bias: 16 bytes asked, 64 of 64 in use");
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// The name is the tensor's, for the [directory](crate::Directory) and for errors. What a device's ledger calls the memory is its
    /// reference's tag ([`Tagged`](wharf_backend::usage::Tagged)): ask through one of the same name for both to say it.
    ///
    /// # Errors
    /// The memory or the block source refused; whatever was taken until then went back.
    pub fn alloc_named<'n, R: BackendRef>(
        target: &T,
        memory: R,
        len: usize,
        name: &'n str,
    ) -> Result<Self, NamedError<'n>>
    where
        T::Memory: Erases<R>,
    {
        let tensor = Self::alloc(target, memory, len);
        let named = tensor.and_then(|tensor| {
            let named = tensor.named(target, name);
            named.map_err(|refused| refused.error)
        });
        named.map_err(|error| NamedError { name, error })
    }

    /// Its name, if it was given one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.identity().map(|identity| identity.get().name())
    }
}

/// Why there is no tensor of this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct NamedError<'n> {
    /// The name that it should have had. To send the error further than the name lives, take the other field.
    pub name: &'n str,
    /// Why.
    pub error: TensorError,
}

impl fmt::Display for NamedError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name.escape_debug(), self.error)
    }
}

impl core::error::Error for NamedError<'_> {}

impl From<NamedError<'_>> for TensorError {
    fn from(named: NamedError<'_>) -> Self {
        named.error
    }
}
