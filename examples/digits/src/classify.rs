//! Classifying a test set ([`run`] for the whole of it): the code that a user of the library would write, for any target and engine.

use core::fmt;

use heapless::Deque;
use wharf_backend::{BackendRef, Erases};
use wharf_engine::{Command, Engine, Fault, SubmitError};
use wharf_tensor::{Launch, LaunchError, Submission, Target, TensorError, Tickets, Use, WaitError};

use crate::model::{CLASSES, INPUTS, ModelBytes};
use crate::{Batch, Network, Score, TestSet, kernels};

/// Launches that are kept in flight, at most; fewer where the engine's queue is shorter.
const WINDOW: usize = 16;

/// The whole demo: weights into `weights`, batches into `batches`, every image classified, everything given back.
///
/// # Errors
/// A memory refused, or the device failed. Nothing stays allocated or in flight.
pub fn run<T, W, B, E>(
    target: &T,
    (weights, batches): (W, B),
    engine: &E,
    model: &ModelBytes<'_>,
    tests: &TestSet<'_>,
    progress: impl FnMut(usize),
) -> Result<Score, ClassifyError>
where
    T: Target<Memory: Erases<W> + Erases<B>>,
    W: BackendRef,
    B: BackendRef + Clone,
    E: Engine<Policy = T::Policy, Cargo = Tickets<T>>,
{
    let network = Network::load(target, weights, model)?;
    let batch = Batch::alloc(target, batches)?;
    let mut score = classify(engine, &network, &batch, tests, progress)?;
    score.bytes_to_device += Network::<T>::BYTES as u64;
    Ok(score)
}

/// Classifies every image and scores the answers. `progress` is told how many are done.
///
/// Each image is two launches, the second reading what the first writes; the engine runs them in
/// order while the next are being launched.
///
/// # Errors
/// The device failed. Nothing stays in flight.
pub fn classify<T: Target, E: Engine<Policy = T::Policy, Cargo = Tickets<T>>>(
    engine: &E,
    network: &Network<T>,
    batch: &Batch<T>,
    tests: &TestSet<'_>,
    mut progress: impl FnMut(usize),
) -> Result<Score, ClassifyError> {
    let mut score = Score::default();
    for images in tests.images().chunks(Batch::<T>::IMAGES * INPUTS) {
        // Waits until the device has read the batch before this one.
        batch.images.write(0, images)?;
        score.bytes_to_device += images.len() as u64;

        let count = images.len() / INPUTS;
        let mut window = Window::new(engine);
        for image in 0..count {
            let part = |tensor: &wharf_tensor::Tensor<T>, bytes| {
                tensor.slice(image * bytes..(image + 1) * bytes)
            };
            let pixels = part(&batch.images, INPUTS)?;
            let hidden = part(&batch.hidden, batch.hidden.len() / Batch::<T>::IMAGES)?;
            let scores = part(&batch.scores, 4 * CLASSES)?;
            let hidden_operands = [
                network.hidden_weight.input(),
                network.hidden_bias.input(),
                pixels.input(),
                hidden.output(),
            ];
            window.launch(Command::Kernel(kernels::hidden_layer), &hidden_operands)?;
            let output_operands = [
                network.output_weight.input(),
                network.output_bias.input(),
                hidden.input(),
                scores.output(),
            ];
            window.launch(Command::Kernel(kernels::output_layer), &output_operands)?;
        }
        window.drain()?;

        for image in 0..count {
            let mut scores = [0; 4 * CLASSES];
            batch.scores.read(image * scores.len(), &mut scores)?;
            score.bytes_from_device += scores.len() as u64;
            let index = score.images;
            score.count(
                best(&scores),
                tests.labels()[index],
                tests.expected()[index],
            );
        }
        progress(score.images);
    }
    Ok(score)
}

/// The class with the highest score; of equal ones, the lower.
fn best(scores: &[u8]) -> u8 {
    let mut best = (0, f32::NEG_INFINITY);
    for (class, score) in (0..).zip(kernels::floats(scores)) {
        if score > best.1 {
            best = (class, score);
        }
    }
    best.0
}

/// Launches in flight, oldest first. A full queue is answered by waiting for the oldest.
struct Window<'e, E: Engine<Cargo = Tickets<T>>, T: Target> {
    engine: &'e E,
    pending: Deque<Submission<'e, E, T>, WINDOW>,
}

impl<'e, E: Engine<Policy = T::Policy, Cargo = Tickets<T>>, T: Target> Window<'e, E, T> {
    const fn new(engine: &'e E) -> Self {
        Self {
            engine,
            pending: Deque::new(),
        }
    }

    fn launch(&mut self, command: Command, operands: &[Use<'_, T>]) -> Result<(), ClassifyError> {
        if self.pending.is_full() {
            self.wait_oldest()?;
        }
        loop {
            match self.engine.launch(command, operands) {
                Ok(submission) => {
                    // There is room: the window waited above.
                    let _ = self.pending.push_back(submission);
                    return Ok(());
                }
                Err(LaunchError::Submit(SubmitError::QueueFull { .. }))
                    if !self.pending.is_empty() =>
                {
                    self.wait_oldest()?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn wait_oldest(&mut self) -> Result<(), ClassifyError> {
        match self.pending.pop_front() {
            Some(oldest) => Ok(oldest.wait()?),
            None => Ok(()),
        }
    }

    fn drain(mut self) -> Result<(), ClassifyError> {
        while !self.pending.is_empty() {
            self.wait_oldest()?;
        }
        Ok(())
    }
}

/// Why a test set was not classified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClassifyError {
    /// A tensor was not read, written or allocated.
    Tensor(TensorError),
    /// A layer was not launched.
    Launch(LaunchError),
    /// A layer did not finish.
    Wait(WaitError),
}

impl fmt::Display for ClassifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tensor(error) => error.fmt(f),
            Self::Launch(error) => write!(f, "launching a layer: {error}"),
            Self::Wait(error) => write!(f, "running a layer: {error}"),
        }
    }
}

impl core::error::Error for ClassifyError {}

impl From<TensorError> for ClassifyError {
    fn from(error: TensorError) -> Self {
        Self::Tensor(error)
    }
}
impl From<LaunchError> for ClassifyError {
    fn from(error: LaunchError) -> Self {
        Self::Launch(error)
    }
}
impl From<WaitError> for ClassifyError {
    fn from(error: WaitError) -> Self {
        Self::Wait(error)
    }
}
impl From<Fault> for ClassifyError {
    fn from(fault: Fault) -> Self {
        Self::Wait(fault.into())
    }
}
