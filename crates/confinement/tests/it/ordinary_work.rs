//! What a confined process does all the time goes on when a refused call would kill it.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::probe;
use crate::raw::call;

#[test]
fn a_worker_works_on_what_it_has() {
    let ended = probe::run("work SqlWorker Kill");
    assert!(ended.status.success(), "{ended:#?}");
    assert_eq!(ended.lines, ["files", "locks", "memory", "sockets", "threads", "time"]);
}

#[test]
fn a_deployment_also_starts_threads_and_opens_files() {
    let ended = probe::run("work Deployment Kill");
    assert!(ended.status.success(), "{ended:#?}");
    let lines = ["files", "locks", "memory", "sockets", "threads", "time", "new threads", "new files", "new sockets"];
    assert_eq!(ended.lines, lines);
}

/// Confines this process and works.
pub(crate) fn perform(list: &str, refusal: &str) {
    let mut file = tempfile::tempfile().unwrap();
    let (mut near, mut far) = UnixStream::pair().unwrap();
    let (questions, asked) = mpsc::channel::<u64>();
    let (answer, answers) = mpsc::channel();
    let workers: Vec<_> = std::iter::once(asked)
        .map(|asked| {
            let answer = answer.clone();
            thread::spawn(move || asked.iter().for_each(|number| answer.send(number + 1).unwrap()))
        })
        .collect();
    probe::confine(list, refusal);

    file.write_all(b"written").unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "written");
    file.write_all_at(b"W", 0).unwrap();
    file.set_len(3).unwrap();
    file.sync_all().unwrap();
    file.sync_data().unwrap();
    probe::report("files");

    lock(&file, libc::F_WRLCK);
    lock(&file, libc::F_UNLCK);
    let copy = file.try_clone().unwrap();
    drop(copy);
    probe::report("locks");

    // Above the limit from which the allocator maps memory, and below it.
    let large = vec![1_u8; 100 << 20];
    assert_eq!(large.iter().map(|byte| u64::from(*byte)).sum::<u64>(), 100 << 20);
    let mut small: Vec<Vec<u8>> = (0..10_000).map(|size| vec![1; size]).collect();
    small[0].resize(50 << 20, 0);
    drop((large, small));
    probe::report("memory");

    near.write_all(b"hello").unwrap();
    let mut greeting = [0; 5];
    far.read_exact(&mut greeting).unwrap();
    assert_eq!(&greeting, b"hello");
    near.set_nonblocking(true).unwrap();
    assert_eq!(near.read(&mut greeting).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    near.shutdown(std::net::Shutdown::Both).unwrap();
    probe::report("sockets");

    questions.send(41).unwrap();
    assert_eq!(answers.recv().unwrap(), 42);
    drop(questions);
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    probe::report("threads");

    let start = Instant::now();
    thread::sleep(Duration::from_millis(2));
    assert!(start.elapsed() >= Duration::from_millis(2));
    assert!(answers.recv_timeout(Duration::from_millis(1)).is_err());
    probe::report("time");

    if list == "Deployment" {
        let name = thread::Builder::new().name("new".into()).spawn(|| thread::current().name().map(str::to_owned));
        assert_eq!(name.unwrap().join().unwrap().as_deref(), Some("new"));
        probe::report("new threads");
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        std::fs::write(inner.join("a"), "text").unwrap();
        std::fs::rename(inner.join("a"), inner.join("b")).unwrap();
        assert_eq!(std::fs::read_dir(&inner).unwrap().count(), 1);
        assert_eq!(std::fs::read_to_string(inner.join("b")).unwrap(), "text");
        std::fs::remove_dir_all(&inner).unwrap();
        probe::report("new files");
        let socket = std::os::unix::net::UnixListener::bind(folder.path().join("socket")).unwrap();
        socket.set_nonblocking(true).unwrap();
        assert_eq!(socket.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        probe::report("new sockets");
    }
}

/// Takes or returns a lock of POSIX on the first byte.
fn lock(file: &File, kind: i32) {
    let lock = libc::flock { l_type: kind as i16, l_whence: 0, l_start: 0, l_len: 1, l_pid: 0 };
    call(libc::SYS_fcntl, [file.as_raw_fd() as usize, libc::F_SETLK as usize, &raw const lock as usize]).unwrap();
}
