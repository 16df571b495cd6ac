//! How a launch ends, and who learns of it.

use wharf_engine::{Command, Fault, KernelFault, Lent};
use wharf_tensor::{Target, Tensor, WaitError};

use super::commands::ADD;
use super::{INLINE, Scene};
use crate::check::{Demand, applies, ensure, equal, refused};
use crate::parcel::Gate;
use crate::tensor::{LEN, is_all, is_free};
use crate::{Failure, Outcome};

/// Reads a gate's number off its operand, and waits there.
pub(super) const AT_GATE: Command = Command::Kernel(|operands| match operands {
    [Lent::Read([gate, ..])] => {
        Gate::pass(*gate);
        Ok(())
    }
    _ => Err(KernelFault::OPERANDS),
});

/// Gives up half-way.
const GIVES_UP: Command = Command::Kernel(|operands| match operands {
    [Lent::Write([first, ..])] => {
        *first = 1;
        Err(KernelFault(77))
    }
    _ => Err(KernelFault::OPERANDS),
});

pub(super) fn told_once<T: Target>(scene: &Scene<'_, T>) -> Outcome {
    let a = scene.rig.zeros(LEN)?;
    let mut fill = scene.launch(Command::Fill(4), &[a.output()])?;
    scene.finish(&mut fill)?.demand("it ends well")?;
    let again = scene.finish(&mut fill)?;
    refused("a second question", again, WaitError::Taken)?;
    is_all(&a, 4)?;
    // Waited for as most do, on an engine that needs nobody to drive it.
    if scene.claims.apart {
        let fill = scene.launch(Command::Fill(5), &[a.output()])?;
        fill.wait().demand("it ends well")?;
        is_all(&a, 5)?;
    }
    Ok(())
}

pub(super) fn fault<T: Target>(scene: &Scene<'_, T>) -> Outcome {
    let (a, b) = (scene.rig.zeros(LEN)?, scene.rig.zeros(LEN)?);
    let gives_up = scene.launch(GIVES_UP, &[a.output()])?;
    scene.fails(gives_up, Fault::Kernel(KernelFault(77)))?;
    // Its operands are free, and what comes next knows nothing of it.
    is_free(&a)?;
    let fill = scene.launch(Command::Fill(2), &[b.output()])?;
    let wrong = scene.launch(ADD, &[a.input()]);
    scene.succeed(fill)?;
    let wrong = match wrong {
        Ok(wrong) => wrong,
        Err(_) => scene.launch(ADD, &[a.input()])?,
    };
    scene.fails(wrong, Fault::Kernel(KernelFault::OPERANDS))?;
    is_all(&b, 2)?;
    is_free(&b)?;
    Ok(())
}

fn named<T: Target>(scene: &Scene<'_, T>, name: &'static str) -> Result<Tensor<T>, Failure> {
    let named = scene.rig.zeros(LEN)?.named_static(scene.rig.target, name);
    named.map_err(|refused| refused.error).demand("a name")
}

pub(super) fn counted<T: Target>(scene: &Scene<'_, T>) -> Outcome {
    let (input, output) = (named(scene, "input")?, named(scene, "output")?);
    let count = |tensor: &Tensor<T>| {
        let done = tensor.completions().demand("its completions")?;
        Ok::<_, Failure>(done.count())
    };
    for launches in 1..=3 {
        let add = scene.launch(ADD, &[input.input(), output.output()])?;
        scene.succeed(add)?;
        // It has risen when the end is told.
        equal("completions of the output", count(&output)?, launches)?;
    }
    equal("completions of the input", count(&input)?, 0)?;
    let gives_up = scene.launch(GIVES_UP, &[output.output()])?;
    scene.fails(gives_up, Fault::Kernel(KernelFault(77)))?;
    equal("completions: a fault is none", count(&output)?, 3)?;
    let slice = output.slice(..4).demand("a slice")?;
    scene.succeed(scene.launch(Command::Fill(1), &[slice.output()])?)?;
    equal("completions: a slice is another output", count(&output)?, 3)?;
    let done = output.completions().demand("its completions")?;
    done.wait_for(3).demand("a wait for what there is")?;
    equal("what the count was", done.reset(), 3)?;
    drop(scene.launch(Command::Fill(1), &[output.output()])?);
    let fill = scene.launch(Command::Fill(2), &[output.output()])?;
    scene.succeed(fill)?;
    equal("completions: also when nobody asks", count(&output)?, 2)?;
    Ok(())
}

pub(super) fn abort_late<T: Target>(scene: &Scene<'_, T>) -> Outcome {
    let (a, b) = (scene.rig.zeros(LEN)?, scene.rig.zeros(LEN)?);
    let first = scene.launch(Command::Fill(1), &[a.output()])?;
    let number = first.sequence();
    scene.wait_for(|| scene.engine.outstanding().is_none().then_some(()))?;
    first.abort();
    scene.succeed(first)?;
    // Its number is nobody's any more.
    scene.engine.abort(number);
    let second = scene.launch(Command::Fill(2), &[b.output()])?;
    scene.engine.abort(number);
    scene.succeed(second)?;
    is_all(&a, 1)?;
    is_all(&b, 2)?;
    Ok(())
}

pub(super) fn abort_early<T: Target>(scene: &Scene<'_, T>) -> Outcome {
    applies(scene.claims.apart, INLINE)?;
    let (gate, a) = (Gate::closed()?, scene.rig.zeros(LEN)?);
    let at = scene.rig.zeros(LEN)?;
    at.fill(gate.number()).demand("a fill")?;
    let running = scene.launch(AT_GATE, &[at.input()])?;
    let waiting = scene.try_launch(Command::Fill(1), &[a.output()]);
    if let Ok(waiting) = &waiting {
        waiting.abort();
    }
    gate.open();
    scene.succeed(running)?;
    scene.fails(waiting.demand("a second launch")?, Fault::Aborted)?;
    is_all(&a, 0)?;
    is_free(&a)?;
    Ok(())
}

/// Neither its tensors nor anybody who asks.
pub(super) fn outlives<T: Target>(scene: &Scene<'_, T>) -> Outcome {
    let before = scene.rig.in_use();
    let (a, b) = (scene.rig.tensor()?, scene.rig.zeros(LEN)?);
    let mut copy = scene.launch(Command::Copy, &[a.input(), b.output()])?;
    drop((a, b));
    scene.finish(&mut copy)?.demand("it ends well")?;
    ensure(scene.rig.in_use() == before, "it gives back what it kept")?;
    let a = scene.rig.zeros(LEN)?;
    let fill = scene.launch(Command::Fill(1), &[a.output()])?;
    let number = fill.sequence();
    drop((a, fill));
    scene.is_over(number)?;
    ensure(
        scene.rig.in_use() == before,
        "so does one that nobody asks for",
    )?;
    Ok(())
}
