//! Files that another process opened and passed on, under virtual paths.
//!
//! A worker process has no access to the file system. SQLite opens files by path, so its system calls that take a path
//! are replaced: a virtual path leads to the descriptor that was provided for it, and every other path to nothing.
//!
//! Closing any descriptor of a file drops the POSIX locks that the process holds on the file. SQLite knows this and
//! delays its own closes, so SQLite always works on duplicates, and the provided descriptor stays open until
//! [`withdraw`].
#![expect(unsafe_code, reason = "the system calls of SQLite are C function pointers")]

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int};
use std::io;
use std::os::fd::{AsRawFd as _, IntoRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr;
use std::sync::{LazyLock, OnceLock};

use parking_lot::Mutex;
use rusqlite::ffi;
use rustix::fs::OFlags;

/// A provided file.
struct Provided {
    file: OwnedFd,
    is_writable: bool,
}

/// The folder of temporary files. Every temporary file comes from [`MAKE_TEMPORARY`].
pub(crate) const TEMPORARY_FOLDER: &str = "/tmp";

type MakeTemporary = dyn Fn() -> io::Result<OwnedFd> + Send + Sync;

static MAKE_TEMPORARY: OnceLock<Box<MakeTemporary>> = OnceLock::new();

static FILES: LazyLock<Mutex<HashMap<Vec<u8>, Provided>>> = LazyLock::new(Mutex::default);

/// Lets `path` lead to `file`. The path must be absolute. Replaces an earlier file, which no connection may use any
/// more.
pub(crate) fn provide(path: &Path, file: OwnedFd) -> io::Result<()> {
    let mode = rustix::fs::fcntl_getfl(&file)? & (OFlags::RDWR | OFlags::WRONLY);
    let is_writable = mode == OFlags::RDWR;
    FILES.lock().insert(path.as_os_str().as_bytes().to_vec(), Provided { file, is_writable });
    Ok(())
}

/// Closes the file of `path`. No connection may use it any more.
pub(crate) fn withdraw(path: &Path) {
    FILES.lock().remove(path.as_os_str().as_bytes());
}

/// Returns `true` if `path` leads to a file.
pub(crate) fn is_provided(path: &Path) -> bool {
    FILES.lock().contains_key(path.as_os_str().as_bytes())
}

/// Replaces the system calls that take a path, for the whole process. From then on SQLite finds provided files only,
/// and `make_temporary` makes its temporary files.
///
/// # Errors
/// An error if SQLite does not know one of the calls.
pub(crate) fn replace_system_calls(make_temporary: Box<MakeTemporary>) -> io::Result<()> {
    if MAKE_TEMPORARY.set(make_temporary).is_err() {
        return Err(io::Error::other("the system calls were already replaced"));
    }
    // Seeds SQLite's generator of random numbers, which reads a device file.
    let mut seed = [0_u8; 8];
    // SAFETY: the buffer has the length that is passed.
    unsafe { ffi::sqlite3_randomness(8, seed.as_mut_ptr().cast()) };
    // SAFETY: a null name asks for the default VFS, which is never freed.
    let vfs = unsafe { ffi::sqlite3_vfs_find(ptr::null()) };
    // SAFETY: the pointer is null or leads to a VFS that stays valid.
    let replace = unsafe { vfs.as_ref() }.and_then(|vfs| vfs.xSetSystemCall);
    let Some(replace) = replace else { return Err(io::Error::other("SQLite has no VFS with system calls")) };
    // SQLite calls each of these with the arguments of the system call of that name, and `open` with all three.
    let calls: [(&CStr, *const ()); 7] = [
        (c"open", open as *const ()),
        (c"access", access as *const ()),
        (c"stat", stat as *const ()),
        (c"lstat", stat as *const ()),
        (c"readlink", readlink as *const ()),
        (c"unlink", unlink as *const ()),
        (c"fchmod", fchmod as *const ()),
    ];
    for (name, call) in calls {
        // SAFETY: a pointer to a function is as large as the type that stands for any of them.
        let call = unsafe { std::mem::transmute::<*const (), unsafe extern "C" fn()>(call) };
        // SAFETY: the VFS and the name are valid, and the function stays valid for as long as the process runs.
        if unsafe { replace(vfs, name.as_ptr(), Some(call)) } != ffi::SQLITE_OK {
            return Err(io::Error::other(format!("SQLite has no system call {}", name.to_string_lossy())));
        }
    }
    Ok(())
}

fn fail(error: c_int) -> c_int {
    // SAFETY: the location is that of this thread's `errno`.
    unsafe { *libc::__errno_location() = error };
    -1
}

/// Runs `work` on the file of a path, or fails with `ENOENT`.
///
/// # Safety
/// `path` must be a C string.
unsafe fn with(path: *const c_char, work: impl FnOnce(&Provided) -> c_int) -> c_int {
    // SAFETY: guaranteed by the caller.
    let path = unsafe { CStr::from_ptr(path) };
    match FILES.lock().get(path.to_bytes()) {
        Some(file) => work(file),
        None => fail(libc::ENOENT),
    }
}

/// Returns `true` if the path is that of the folder of temporary files.
///
/// # Safety
/// `path` must be a C string.
unsafe fn is_temporary_folder(path: *const c_char) -> bool {
    // SAFETY: guaranteed by the caller.
    unsafe { CStr::from_ptr(path) }.to_bytes() == TEMPORARY_FOLDER.as_bytes()
}

unsafe extern "C" fn open(path: *const c_char, flags: c_int, _mode: c_int) -> c_int {
    // SAFETY: SQLite passes a C string.
    if flags & libc::O_TMPFILE == libc::O_TMPFILE && unsafe { is_temporary_folder(path) } {
        let made = MAKE_TEMPORARY.get().map_or(Err(io::ErrorKind::NotFound.into()), |make| make());
        return match made {
            Ok(file) => file.into_raw_fd(),
            Err(error) => fail(error.raw_os_error().unwrap_or(libc::EIO)),
        };
    }
    let open = |file: &Provided| {
        if flags & libc::O_EXCL != 0 {
            return fail(libc::EEXIST);
        }
        if flags & libc::O_ACCMODE != libc::O_RDONLY && !file.is_writable {
            return fail(libc::EACCES);
        }
        // Standard input, output and error are never the descriptor of a file.
        match rustix::io::fcntl_dupfd_cloexec(&file.file, 3) {
            Ok(duplicate) => duplicate.into_raw_fd(),
            Err(error) => fail(error.raw_os_error()),
        }
    };
    // SAFETY: SQLite passes a C string.
    unsafe { with(path, open) }
}

unsafe extern "C" fn access(path: *const c_char, mode: c_int) -> c_int {
    // SAFETY: SQLite passes a C string.
    if unsafe { is_temporary_folder(path) } {
        return 0;
    }
    let check = |file: &Provided| if mode & libc::W_OK != 0 && !file.is_writable { fail(libc::EACCES) } else { 0 };
    // SAFETY: SQLite passes a C string.
    unsafe { with(path, check) }
}

unsafe extern "C" fn stat(path: *const c_char, into: *mut libc::stat) -> c_int {
    // SAFETY: SQLite passes a C string.
    if unsafe { is_temporary_folder(path) } {
        // SAFETY: SQLite passes a structure to fill, for which all zeros is a valid value.
        unsafe {
            into.write(std::mem::zeroed());
            (*into).st_mode = libc::S_IFDIR | 0o700;
        }
        return 0;
    }
    // SAFETY: SQLite passes a C string, and a structure to fill.
    unsafe { with(path, |file| libc::fstat(file.file.as_raw_fd(), into)) }
}

unsafe extern "C" fn readlink(path: *const c_char, _into: *mut c_char, _bytes: usize) -> isize {
    // SAFETY: SQLite passes a C string. No provided file is a link.
    let failed = unsafe { with(path, |_| fail(libc::EINVAL)) };
    failed as isize
}

unsafe extern "C" fn unlink(path: *const c_char) -> c_int {
    // SAFETY: SQLite passes a C string. The process that provides files also removes them.
    unsafe { with(path, |_| fail(libc::EPERM)) }
}

/// Does nothing. SQLite sets the mode of lock files, which the process that provides them has done.
unsafe extern "C" fn fchmod(_file: c_int, _mode: libc::mode_t) -> c_int {
    0
}
