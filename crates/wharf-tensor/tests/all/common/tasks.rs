//! Futures that a test polls by hand.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::Wakes;

/// A future, and how often it was woken.
pub(crate) struct Task<'f, T> {
    future: Pin<Box<dyn Future<Output = T> + 'f>>,
    wakes: Arc<Wakes>,
}

impl<'f, T> Task<'f, T> {
    pub(crate) fn new(future: impl Future<Output = T> + 'f) -> Self {
        Self {
            future: Box::pin(future),
            wakes: Arc::default(),
        }
    }
    pub(crate) fn poll(&mut self) -> Poll<T> {
        let waker = Waker::from(self.wakes.clone());
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }
    /// Polls it; it must not be ready.
    pub(crate) fn waits(&mut self) {
        assert!(self.poll().is_pending());
    }
    /// Polls it; it must be ready.
    pub(crate) fn done(&mut self) -> T {
        match self.poll() {
            Poll::Ready(output) => output,
            Poll::Pending => panic!("still pending"),
        }
    }
    pub(crate) fn woken(&self) -> usize {
        self.wakes.count()
    }
}
