//! What runs on the board.

use core::fmt;
use core::panic::PanicInfo;

use cortex_m_rt::entry;
use cortex_m_semihosting::{debug, hprintln};
use digits::image::{self, ImageError};
use digits::report::{Footprint, JsonLine};
use digits::{Batch, ClassifyError, Network};
use wharf_backend::{MemBackend, StaticPool};
use wharf_engine::{CpuEngine, Stream, TooManyStreams};
use wharf_source::StaticPoolSource;
use wharf_sync::Critical;
use wharf_tensor::{Firmware, Tensor, Tickets};

/// The model and its test set, packed by the build script, in flash.
static IMAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/digits.image"));

/// Control blocks of four storages.
type Blocks = StaticPoolSource<Critical, 512, 2>;
/// What tensors of this board are made of.
type Board = Firmware<Critical, Blocks>;
// What `Firmware` and `docs/memory.md` say of a Cortex-M3.
const _: () = assert!(Tensor::<Board>::CONTROL_BLOCK.size() == 96);
const _: () = assert!(Tensor::<Board>::IDENTITY_BLOCK.size() == 128);

static BLOCKS: Blocks = Blocks::new();
static WEIGHTS: StaticPool<Critical, { Network::<Board>::BYTES }, 1> = StaticPool::new();
static BATCHES: StaticPool<Critical, { Batch::<Board>::LARGEST }, 3> = StaticPool::new();

#[entry]
fn main() -> ! {
    let status = match demo() {
        Ok(()) => debug::EXIT_SUCCESS,
        Err(error) => {
            hprintln!("digits: {error}");
            debug::EXIT_FAILURE
        }
    };
    debug::exit(status);
    // The emulator has stopped; a board sleeps here.
    loop {
        cortex_m::asm::wfi();
    }
}

fn demo() -> Result<(), Error> {
    let (model, tests) = image::parse(IMAGE)?;
    let target = Board::new(&BLOCKS);
    let engine = CpuEngine::<Critical, Tickets<Board>>::new(Stream::claim()?);
    let score = digits::run(
        &target,
        (&WEIGHTS, &BATCHES),
        &engine,
        &model,
        &tests,
        |done| hprintln!("{done:>5} of {} images", tests.count()),
    )?;

    let (weights, batches) = (WEIGHTS.census(), BATCHES.census());
    let footprint = Footprint {
        peak_bytes: weights.bytes_peak() + batches.bytes_peak(),
        leaked_segments: weights.in_use + batches.in_use,
    };
    hprintln!("accuracy          {} of {}", score.correct, score.images);
    hprintln!(
        "agreement         {} of {} answers are the model's own",
        score.matches_expected,
        score.images
    );
    hprintln!("bytes to tensors  {}", score.bytes_to_device);
    hprintln!("bytes from there  {}", score.bytes_from_device);
    hprintln!("weights pool      {weights}");
    hprintln!("batch pool        {batches}");
    hprintln!(
        "control blocks    {} of {} bytes carved",
        BLOCKS.used(),
        512
    );
    let target = "thumbv7m-none-eabi";
    hprintln!(
        "{}",
        JsonLine {
            target,
            score,
            footprint
        }
    );
    if footprint.leaked_segments > 0 {
        return Err(Error::Leaked(footprint.leaked_segments));
    }
    Ok(())
}

/// Everything that can go wrong.
enum Error {
    Image(ImageError),
    Streams(TooManyStreams),
    Classify(ClassifyError),
    Leaked(usize),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image(error) => write!(f, "the image of the model: {error}"),
            Self::Streams(error) => error.fmt(f),
            Self::Classify(error) => error.fmt(f),
            Self::Leaked(segments) => write!(f, "{segments} segments leaked"),
        }
    }
}

impl From<ImageError> for Error {
    fn from(error: ImageError) -> Self {
        Self::Image(error)
    }
}
impl From<TooManyStreams> for Error {
    fn from(error: TooManyStreams) -> Self {
        Self::Streams(error)
    }
}
impl From<ClassifyError> for Error {
    fn from(error: ClassifyError) -> Self {
        Self::Classify(error)
    }
}

#[panic_handler]
fn panicked(info: &PanicInfo<'_>) -> ! {
    hprintln!("{info}");
    debug::exit(debug::EXIT_FAILURE);
    // The emulator has stopped; a board sleeps here.
    loop {
        cortex_m::asm::wfi();
    }
}
