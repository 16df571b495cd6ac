//! The hosted demo: weights, inputs and outputs are tensors on a software DMA device.

mod timeline;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use digits::load::{OwnedModel, OwnedTestSet, load_model};
use digits::report::{Footprint, JsonLine, Score};
use indicatif::{ProgressBar, ProgressStyle};
use wharf_backend::usage::UsageClass;
use wharf_softdma::{Config, SoftDma};
use wharf_tensor::Tickets;

use timeline::{Timeline, Watched};

/// Classifies 360 held-out handwritten digits on a software DMA device.
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    /// A `.safetensors` file with the weights of a 64-32-10 perceptron, instead of the one shipped.
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Ends with one line of JSON on the standard output; everything else goes to the standard error.
    #[arg(long)]
    json: bool,
    /// Also writes what happened, as a timeline for ui.perfetto.dev or chrome://tracing.
    #[arg(long, value_name = "PATH")]
    trace: Option<PathBuf>,
    /// Bytes of device memory.
    #[arg(long, default_value_t = 256 * 1024, value_name = "BYTES")]
    memory: usize,
}

const MODEL: &[u8] = include_bytes!("../../../data/digits-mlp.safetensors");
const TESTS: &[u8] = include_bytes!("../../../data/digits-test.safetensors");

fn main() -> ExitCode {
    let options = Options::parse();
    let model = match model(options.model.as_deref()) {
        Ok(model) => model,
        Err(error) => {
            eprintln!("digits: {error}");
            return ExitCode::from(2);
        }
    };
    let timeline = match options.trace.as_deref().map(Timeline::create).transpose() {
        Ok(timeline) => timeline,
        Err(error) => {
            eprintln!("digits: {error}");
            return ExitCode::from(2);
        }
    };
    let ran = demo(&options, &model, timeline.as_ref());
    // Also of a run that failed: that is what one wants to look at.
    let written = timeline.map_or(Ok(()), |timeline| timeline.finish());
    match ran.and(written.map_err(Into::into)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("digits: {error}");
            ExitCode::FAILURE
        }
    }
}

fn model(file: Option<&Path>) -> Result<OwnedModel, Box<dyn std::error::Error>> {
    Ok(match file {
        Some(file) => load_model(file)?,
        None => OwnedModel::from_safetensors(MODEL)?,
    })
}

fn demo(
    options: &Options,
    model: &OwnedModel,
    timeline: Option<&Timeline>,
) -> Result<(), Box<dyn std::error::Error>> {
    let tests = OwnedTestSet::from_safetensors(TESTS)?;
    let bar = ProgressBar::new(tests.lend().count() as u64);
    bar.set_style(ProgressStyle::with_template("{bar:40} {pos}/{len} images")?);

    let device = SoftDma::<Tickets<Watched>>::open(Config::new(options.memory))?;
    let channel = device.channel();
    let score = digits::run(
        &timeline::target(timeline),
        (
            channel.tagged("weights", UsageClass::WEIGHT),
            channel.tagged("batches", UsageClass::IO),
        ),
        &device,
        &model.lend(),
        &tests.lend(),
        |done| bar.set_position(done as u64),
    )?;
    bar.finish_and_clear();

    let ledger = channel.ledger();
    let footprint = Footprint {
        peak_bytes: ledger.census.bytes_peak(),
        leaked_segments: ledger.segments,
    };
    eprint!("{}", summary(&score));
    eprintln!("channel softdma   {}", ledger.census);
    eprintln!("{}", ledger.usage);
    eprintln!(
        "segments          {} live, peak {}; {} allocated, {} freed",
        ledger.segments, ledger.segments_peak, ledger.allocations, ledger.frees
    );
    // The device counts for itself what crossed; the program must not tell otherwise.
    let crossed = (ledger.bytes_in, ledger.bytes_out);
    if crossed != (score.bytes_to_device, score.bytes_from_device) {
        return Err(format!("the device counts {crossed:?} bytes in and out").into());
    }
    if options.json {
        println!(
            "{}",
            JsonLine {
                target: "host",
                score,
                footprint
            }
        );
    }
    if footprint.leaked_segments > 0 {
        return Err(format!("{} segments leaked", footprint.leaked_segments).into());
    }
    Ok(())
}

fn summary(score: &Score) -> String {
    let Score {
        images,
        correct,
        matches_expected,
        bytes_to_device,
        bytes_from_device,
    } = score;
    format!(
        "accuracy          {correct} of {images}\n\
         agreement         {matches_expected} of {images} answers are the model's own\n\
         bytes to device   {bytes_to_device}\n\
         bytes from device {bytes_from_device}\n"
    )
}
