//! The hardening flags of the C code: what `.cargo/cc-hardened` adds, and what the program under test has.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use branchyard::build_info::SECTION;
use branchyard::elf;

use crate::build_info::verbose;

const STACK: &str = "-fstack-protector-strong";
const FORTIFY: [&str; 2] = ["-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=3"];
const INIT: &str = "-ftrivial-auto-var-init=zero";

fn wrapper() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cargo/cc-hardened").canonicalize().unwrap()
}

/// Returns the wrapper as a build script runs it that compiles for its own machine, without a choice of the compiler.
fn native() -> Command {
    let mut command = Command::new(wrapper());
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    command.env("TARGET", &target).env("HOST", &target);
    for name in ["CC", "HOST_CC", "TARGET_CC", "CROSS_COMPILE"] {
        command.env_remove(name);
    }
    command.env_remove(format!("CC_{}", target.replace('-', "_")));
    command
}

/// A compiler that prints its arguments and refuses one.
struct FakeCompiler {
    folder: tempfile::TempDir,
}

impl FakeCompiler {
    fn that_refuses(argument: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("a folder ").tempdir().unwrap();
        let script = format!("#!/bin/sh\nfor a do [ \"$a\" != '{argument}' ] || exit 1; done\nprintf '%s\\n' \"$@\"\n");
        let fake = Self { folder };
        fs::write(fake.path(), script).unwrap();
        fs::set_permissions(fake.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fake
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("fake cc")
    }

    /// Returns the arguments that this compiler receives from the wrapper.
    fn arguments(&self, args: &[&str]) -> Vec<String> {
        run(native().env("CC", self.path()).args(args))
    }
}

fn run(command: &mut Command) -> Vec<String> {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().split_whitespace().map(str::to_owned).collect()
}

#[test]
fn the_flags_that_a_compiler_supports_are_added() {
    let compiler = FakeCompiler::that_refuses("nothing");
    let all = [&[STACK][..], &FORTIFY, &[INIT]].concat();
    assert_eq!(compiler.arguments(&["-O2", "-c", "a.c"]), [&all[..], &["-O2", "-c", "a.c"]].concat());
    let old = FakeCompiler::that_refuses(INIT);
    assert_eq!(old.arguments(&["-Os", "-c", "a.c"]), [STACK, FORTIFY[0], FORTIFY[1], "-Os", "-c", "a.c"]);
    let older = FakeCompiler::that_refuses(FORTIFY[1]);
    assert_eq!(older.arguments(&["-O2", "-c", "a.c"]), [STACK, INIT, "-O2", "-c", "a.c"]);
    let oldest = FakeCompiler::that_refuses("-Werror");
    assert_eq!(oldest.arguments(&["-O2", "-c", "a.c"]), ["-O2", "-c", "a.c"]);
}

#[test]
fn the_command_line_has_precedence() {
    let compiler = FakeCompiler::that_refuses("nothing");
    for args in [&["-c", "a.c"][..], &["-O2", "-c", "a.c", "-O0"]] {
        assert_eq!(compiler.arguments(args), [&[STACK, INIT], args].concat(), "it does not optimize");
    }
    let own = ["-O2", "-D_FORTIFY_SOURCE=2", "-fno-stack-protector", "-ftrivial-auto-var-init=pattern", "-c", "a.c"];
    assert_eq!(compiler.arguments(&own), own);
    for untouched in [&["-E", "a.c"][..], &["-O2", "a.c"], &["-c", "a.S"], &["-O1", "-fsanitize=address", "-c", "a.c"]]
    {
        assert_eq!(compiler.arguments(untouched), untouched);
    }
}

#[test]
fn the_compiler_is_the_one_that_the_variables_name() {
    let (first, second) = (FakeCompiler::that_refuses("nothing"), FakeCompiler::that_refuses("-second"));
    let name = format!("CC_{}_unknown_linux_gnu", std::env::consts::ARCH);
    let by = |variables: &[(&str, &OsStr)]| native().envs(variables.iter().copied()).arg("-second").output().unwrap();
    let (one, two, itself) = (first.path(), second.path(), wrapper());
    assert!(by(&[("CC", one.as_os_str()), ("TARGET_CC", two.as_os_str())]).status.success());
    assert!(!by(&[("CC", one.as_os_str()), ("HOST_CC", two.as_os_str())]).status.success());
    assert!(!by(&[("HOST_CC", one.as_os_str()), (&name, two.as_os_str())]).status.success());
    // A build script may have passed on the variable of `.cargo/config.toml`.
    assert!(by(&[("CC", one.as_os_str()), (&name, itself.as_os_str())]).status.success());
    assert_eq!(run(native().env("CC", "echo -X").args(["-E", "a.c"])), ["-X", "-E", "a.c"]);
}

#[test]
fn another_target_has_the_compiler_of_its_prefix() {
    let folder = tempfile::tempdir().unwrap();
    let native = std::env::consts::ARCH;
    for name in ["cc", "other-linux-gnu-gcc", "musl-gcc", "mine-gcc"] {
        let program = folder.path().join(name);
        fs::write(&program, format!("#!/bin/sh\necho {name}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let by = |target: &str, prefix: &str| {
        let mut command = self::native();
        run(command.env("PATH", &path).env("TARGET", target).env("CROSS_COMPILE", prefix).arg("-E")).concat()
    };
    assert_eq!(by(&format!("{native}-unknown-linux-gnu"), "mine-"), "cc");
    assert_eq!(by(&format!("{native}-unknown-linux-musl"), ""), "musl-gcc");
    assert_eq!(by("other-unknown-linux-gnu", ""), "other-linux-gnu-gcc");
    assert_eq!(by("other-unknown-linux-musl", ""), "cc");
    assert_eq!(by("other-unknown-linux-musl", "mine-"), "mine-gcc");
}

#[test]
fn the_program_has_the_flags_that_the_compiler_supports() {
    let target = verbose().lines().find_map(|line| line.strip_prefix("target: ")).unwrap().to_owned();
    let chosen = std::env::var_os(format!("CC_{target}")).unwrap_or_default();
    if Path::new(&chosen) != wrapper() {
        println!("skipped: the C compiler of this build is {chosen:?}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (source, object) = (folder.path().join("doltlite.c"), folder.path().join("doltlite.o"));
    fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let mut compile = Command::new(wrapper());
    compile.env("TARGET", &target).env("HOST", &target).args(["-O2", "-c"]).arg(&source).arg("-o").arg(&object);
    assert!(compile.status().unwrap().success());
    let records = elf::section(&object, SECTION).unwrap().unwrap();
    let said = verbose();
    let records = String::from_utf8(records.bytes).unwrap();
    assert_eq!(records.lines().count(), 4, "{records}");
    for record in records.lines() {
        let line = record.replacen("compiler ", "c compiler: ", 1);
        let line = line.strip_suffix(" on").map_or(line.clone(), |flag| format!("{flag}: on"));
        let line = line.strip_suffix(" off").map_or(line.clone(), |flag| format!("{flag}: off"));
        assert!(said.lines().any(|found| found == line), "{line}\n{said}");
    }
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[test]
fn what_the_flags_call_is_in_the_program() {
    let program = Path::new(env!("CARGO_BIN_EXE_branchyard"));
    let said = verbose();
    let is_on = |flag: &str| said.contains(&format!("{flag}: on\n"));
    let imported: Vec<String> =
        symbols(program, ".dynsym", ".dynstr").filter(|symbol| symbol.address == 0).map(|symbol| symbol.name).collect();
    if is_on(STACK) {
        assert!(imported.iter().any(|name| name == "__stack_chk_fail"), "{imported:?}");
    }
    // The C library of musl has no such functions.
    if is_on("-D_FORTIFY_SOURCE=3") && cfg!(target_env = "gnu") {
        for name in ["__memcpy_chk", "__snprintf_chk"] {
            assert!(imported.iter().any(|found| found == name), "{name} is not in {imported:?}");
        }
    }
    #[cfg(target_arch = "x86_64")]
    if is_on(STACK) {
        let text = elf::section(program, ".text").unwrap().unwrap();
        let guarded = symbols(program, ".symtab", ".strtab")
            .filter(|symbol| symbol.name.starts_with("sqlite3") && symbol.address >= text.address)
            .filter(|symbol| {
                let start = usize::try_from(symbol.address - text.address).unwrap();
                let code = text.bytes.get(start..start + symbol.size).unwrap_or_default();
                code.windows(9).any(|code| code.starts_with(&[0x64, 0x48]) && code.ends_with(&CANARY))
            });
        let count = guarded.count();
        assert!(count > 100, "{count} functions of the engine have a canary");
    }
}

/// The end of an instruction that reads `fs:0x28`, where the canary is.
#[cfg(target_arch = "x86_64")]
const CANARY: [u8; 5] = [0x25, 0x28, 0, 0, 0];

struct Symbol {
    name: String,
    /// Where it is, or 0 if it is imported.
    address: u64,
    size: usize,
}

fn symbols(program: &Path, table: &str, names: &str) -> impl Iterator<Item = Symbol> {
    let table = elf::section(program, table).unwrap().unwrap().bytes;
    let names = elf::section(program, names).unwrap().unwrap().bytes;
    let symbol = move |entry: &[u8]| {
        let number = |offset, width| elf::number(entry, offset, width).unwrap();
        let start = usize::try_from(number(0, 4)).unwrap();
        let name = names[start..].split(|byte| *byte == 0).next().unwrap();
        Symbol {
            name: String::from_utf8_lossy(name).into_owned(),
            address: number(8, 8),
            size: usize::try_from(number(16, 8)).unwrap(),
        }
    };
    table.chunks_exact(24).map(symbol).collect::<Vec<_>>().into_iter()
}
