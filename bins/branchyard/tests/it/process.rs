//! The binary under test.

use branchyard_testkit::Program;

pub(crate) fn program() -> Program {
    Program::at(env!("CARGO_BIN_EXE_branchyard"))
}
