//! Files, network and signals under Landlock. The tests need a kernel with Landlock, and say if there is none.

use std::fs;
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;

use branchyard_confinement::{
    AllowedPath, ConfinementError, FileRestriction, PathAccess, hide_memory, kernel_support, restrict_files,
};

use crate::probe;
use crate::raw::call;

#[test]
fn files_network_and_signals_are_restricted_as_far_as_the_kernel_goes() {
    let Some(abi) = kernel_support().landlock_abi else {
        println!("skipped: this kernel has no Landlock");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    for name in ["own", "read", "others"] {
        fs::create_dir(folder.path().join(name)).unwrap();
        fs::write(folder.path().join(name).join("file"), name).unwrap();
    }
    std::os::unix::fs::symlink(folder.path().join("others/file"), folder.path().join("own/link")).unwrap();
    // Sockets of this process, which the confined one must not reach.
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let _abstract = UnixListener::bind_addr(&abstract_name(folder.path())).unwrap();
    let ended = probe::run(&format!("files {} {}", folder.path().display(), tcp.local_addr().unwrap().port()));
    assert!(ended.status.success(), "{ended:#?}");
    let mut expected = vec![
        format!("restriction {:?}", FileRestriction::Enforced { landlock_abi: abi }),
        "create below own folder: ok".to_owned(),
        "read below readable folder: ok".to_owned(),
        "write below readable folder: PermissionDenied".to_owned(),
        "read in other folder: PermissionDenied".to_owned(),
        "read through link: PermissionDenied".to_owned(),
        "list other folder: PermissionDenied".to_owned(),
        "hard link to other file: refused".to_owned(),
        "rename into other folder: refused".to_owned(),
        "execute own file: PermissionDenied".to_owned(),
        "environment of parent: PermissionDenied".to_owned(),
        "memory of parent: PermissionDenied".to_owned(),
    ];
    if abi >= 4 {
        expected.push("connect: PermissionDenied".to_owned());
        expected.push("listen: PermissionDenied".to_owned());
    }
    if abi >= 6 {
        expected.push("abstract socket: PermissionDenied".to_owned());
        expected.push("signal parent: PermissionDenied".to_owned());
    }
    assert_eq!(ended.lines, expected, "{}", ended.output);
}

#[test]
fn a_path_that_does_not_exist_is_an_error_before_anything_is_restricted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("absent");
    let error = restrict_files(&[AllowedPath { path: &path, access: PathAccess::Read }], &[]).unwrap_err();
    assert!(matches!(error, ConfinementError::Path { .. }), "{error}");
    fs::read_dir(folder.path()).unwrap();
}

fn abstract_name(folder: &Path) -> SocketAddr {
    SocketAddr::from_abstract_name(folder.as_os_str().as_encoded_bytes()).unwrap()
}

fn report<T>(what: &str, result: std::io::Result<T>) {
    match result {
        Ok(_) => probe::report(&format!("{what}: ok")),
        Err(error) => probe::report(&format!("{what}: {:?}", error.kind())),
    }
}

/// Restricts this process, and reports what it can still do.
pub(crate) fn perform(folder: &str, port: u16) {
    let folder = Path::new(folder);
    let (own, read, others) = (folder.join("own"), folder.join("read"), folder.join("others"));
    let program = own.join("program");
    fs::copy("/bin/true", &program).unwrap();
    let parent = std::os::unix::process::parent_id();
    let allowed = [
        AllowedPath { path: &own, access: PathAccess::ReadWrite },
        AllowedPath { path: &read.join("file"), access: PathAccess::Read },
    ];
    let restriction = restrict_files(&allowed, &[1]).unwrap();
    hide_memory().unwrap();
    probe::report(&format!("restriction {restriction:?}"));
    let FileRestriction::Enforced { landlock_abi: abi } = restriction else { return };
    report("create below own folder", fs::write(own.join("new"), "text"));
    report("read below readable folder", fs::read(read.join("file")));
    report("write below readable folder", fs::write(read.join("file"), "text"));
    report("read in other folder", fs::read(others.join("file")));
    report("read through link", fs::read(own.join("link")));
    report("list other folder", fs::read_dir(&others));
    // `EXDEV` or `EACCES`.
    let refused = |what: &str, result: std::io::Result<()>| {
        let kinds = [ErrorKind::PermissionDenied, ErrorKind::CrossesDevices];
        let is_refused = result.as_ref().is_err_and(|error| kinds.contains(&error.kind()));
        probe::report(&format!("{what}: {}", if is_refused { "refused".to_owned() } else { format!("{result:?}") }));
    };
    refused("hard link to other file", fs::hard_link(others.join("file"), own.join("hard")));
    refused("rename into other folder", fs::rename(own.join("new"), others.join("new")));
    report("execute own file", std::process::Command::new(&program).status());
    report("environment of parent", fs::read(format!("/proc/{parent}/environ")));
    report("memory of parent", fs::File::open(format!("/proc/{parent}/mem")));
    if abi >= 4 {
        report("connect", TcpStream::connect(("127.0.0.1", port)));
        report("listen", TcpListener::bind(("127.0.0.1", 0)));
    }
    if abi >= 6 {
        report("abstract socket", UnixStream::connect_addr(&abstract_name(folder)));
        let signal = call(libc::SYS_kill, [parent as usize, 0]);
        report("signal parent", signal.map_err(std::io::Error::from_raw_os_error));
    }
}
