//! What nearly every program names: `use wharf::prelude::*;`.
//!
//! It follows the features: a policy, a backend or a device is here where its feature is on. Descriptors and
//! what only the author of a backend or an engine needs are in the modules.

#[doc(no_inline)]
pub use crate::backend::{
    AllocError, BackendExt, MemBackend, Place, PoolBackend, Returned, SegmentMut, SegmentWriter,
    ShardedPool, SlotControl, StaticPool, TransferError, Uninit,
    usage::{Accounted, UsageClass},
    wrap::Waits,
};
#[doc(no_inline)]
pub use crate::engine::{
    Access, Command, CpuEngine, Engine, EngineExt, Fault, KernelFault, Lent, Stream, SubmitError,
    Unfinished,
};
#[doc(no_inline)]
pub use crate::segment::{PushError, ReadError, Rope, Segment, SliceError, View};
#[doc(no_inline)]
pub use crate::source::{Census, StaticPoolSource};
#[doc(no_inline)]
pub use crate::sync::{NoClock, SyncPolicy, Unsync};
#[doc(no_inline)]
pub use crate::tensor::{
    BatchError, CompletionError, Completions, Directory, Firmware, Launch, LaunchError, NoTrace,
    Parts, Submission, Target, Tensor, TensorError, Ticket, Tickets, TraceEvent, TraceKind,
    TracePhase, TraceRing, TraceSink, Use, WaitError,
};

#[cfg(feature = "alloc")]
#[doc(no_inline)]
pub use crate::{backend::Heap, source::HeapSource};

#[cfg(feature = "critical-section")]
#[doc(no_inline)]
pub use crate::sync::Critical;

#[cfg(feature = "std")]
#[doc(no_inline)]
pub use crate::{
    sync::{Blocking, StdClock},
    tensor::{ChromeTrace, Hosted},
};

#[cfg(feature = "meta")]
#[doc(no_inline)]
pub use crate::meta::{DType, ModelTensors, Shape, TensorInfo, TensorSet, Typed, checksum};

#[cfg(feature = "softdma")]
#[doc(no_inline)]
pub use crate::softdma::{ChannelConfig, Config, SoftDma};
