//! What a device allocator accounts for, in terms that every device shares.
//!
//! A device has memory *channels*, each a [`MemBackend`](crate::MemBackend) of its own with a [`ChannelId`]. Whoever asks for
//! memory says what it is for, by a [`UsageClass`], how it is to be aligned, both in the [`AllocHint`](crate::AllocHint), and what
//! he calls it, by a [`Tag`]. A channel that implements [`Accounted`] keeps [`UsageBooks`] per class, an [`EventRing`] of
//! what happened last, and an [`Allocation`] for each live segment. From a refusal, [`Breakdown`] tells a person who has
//! the memory.
//!
//! [`Tagged`] is a reference to a channel together with a class and a tag: it goes wherever a reference to a backend does.

mod accounted;
mod allocation;
mod books;
mod breakdown;
mod channel;
mod class;
mod event;
mod hint;
mod tag;
mod tagged;

pub use accounted::Accounted;
pub use allocation::Allocation;
pub use books::UsageBooks;
pub use breakdown::Breakdown;
pub use channel::ChannelId;
pub use class::UsageClass;
pub use event::{EventRing, UsageEvent, UsageEventKind};
pub use hint::BadAlignment;
pub use tag::Tag;
pub use tagged::Tagged;
