//! Pitfall: a kernel captures a variable of the function that launches it, and runs after it has returned.
//! Instead: give the kernel what it needs as an operand.

use wharf::prelude::*;

fn main() {
    let factor = 3;
    let _ = Command::Kernel(|operands| {
        let [Lent::Write(bytes)] = operands else {
            return Err(KernelFault(1));
        };
        bytes.iter_mut().for_each(|byte| *byte *= factor);
        Ok(())
    });
}
