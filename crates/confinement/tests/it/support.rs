//! What the kernel says about itself.

use branchyard_confinement::kernel_support;

#[test]
fn what_the_kernel_offers_is_found_and_leaves_this_process_free() {
    let support = kernel_support();
    assert_eq!(support, kernel_support());
    let lists = std::fs::read_to_string("/sys/kernel/security/lsm").unwrap_or_default();
    if lists.split(',').any(|name| name.trim() == "landlock") {
        assert!(support.landlock_abi.is_some(), "{support:?}, {lists}");
    }
    let actions = std::fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail").unwrap_or_default();
    if actions.contains("kill_process") {
        assert!(support.seccomp, "{support:?}, {actions}");
    }
    assert_eq!(support.is_complete(), support.seccomp && support.landlock_abi.is_some());
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    assert!(status.contains("Seccomp:\t0"), "{status}");
}
