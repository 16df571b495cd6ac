//! Who has the memory that was refused.

use core::fmt;

use super::{Accounted, Tag, UsageEventKind};
use crate::{AllocError, BackendRef, MemBackend};

/// A refusal, explained by the books of the channels that there are: what was asked, by whom, and what the memory is used
/// for, by channel and class. For a person: show it.
///
/// The books are read when it is shown, and the name of the caller when it is made; both may have moved on since the
/// refusal.
pub struct Breakdown<'c, R> {
    error: AllocError,
    tag: Tag,
    channels: &'c [R],
}

impl<'c, R: BackendRef> Breakdown<'c, R>
where
    R::Backend: Accounted,
{
    /// Of a refusal by one of `channels`. Looks for its caller among the events of the channel that refused.
    #[must_use]
    pub fn new(error: AllocError, channels: &'c [R]) -> Self {
        let tag = asked_by(&error, channels).unwrap_or(Tag::NONE);
        Self {
            error,
            tag,
            channels,
        }
    }

    /// What it explains.
    #[must_use]
    pub const fn error(&self) -> &AllocError {
        &self.error
    }

    /// What the caller called the memory that he did not get, as far as that is still known.
    #[must_use]
    pub const fn tag(&self) -> &Tag {
        &self.tag
    }
}

/// The channel that `error` is about.
fn refused_by<'c, R: BackendRef>(error: &AllocError, channels: &'c [R]) -> Option<&'c R::Backend>
where
    R::Backend: Accounted,
{
    let AllocError::OutOfMemory { channel, .. } = *error else {
        return None;
    };
    let mut all = channels.iter().map(R::backend);
    all.find(|one| one.channel() == channel)
}

/// The tag of the last refusal that `error` can be about.
fn asked_by<R: BackendRef>(error: &AllocError, channels: &[R]) -> Option<Tag>
where
    R::Backend: Accounted,
{
    let AllocError::OutOfMemory {
        requested, class, ..
    } = *error
    else {
        return None;
    };
    let refused_by = refused_by(error, channels)?;
    let newest_first = (0..refused_by.recorded()).rev();
    newest_first
        .map_while(|number| refused_by.event(number))
        .find_map(|event| {
            let same = event.kind == UsageEventKind::Refusal
                && (event.bytes, event.class) == (requested, class);
            same.then_some(event.tag)
        })
}

impl<R: BackendRef> fmt::Display for Breakdown<'_, R>
where
    R::Backend: Accounted,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.tag.is_none() {
            write!(f, "'{}': ", self.tag)?;
        }
        write!(f, "{}", self.error)?;
        // The error knows the number of its channel, not the name.
        if let Some(refused_by) = refused_by(&self.error, self.channels) {
            write!(f, " ('{}')", refused_by.name())?;
        }
        for one in self.channels.iter().map(R::backend) {
            let (channel, name, largest) = (one.channel(), one.name(), one.largest_free());
            write!(
                f,
                "\n\n{channel} '{name}', largest free range {largest} bytes\n{}",
                one.usage()
            )?;
        }
        Ok(())
    }
}

impl<R> fmt::Debug for Breakdown<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Breakdown")
            .field("error", &self.error)
            .field("tag", &self.tag)
            .field("channels", &self.channels.len())
            .finish()
    }
}
