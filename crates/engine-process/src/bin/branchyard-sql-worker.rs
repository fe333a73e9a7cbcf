//! A program that runs workers, for services that embed the engine and are not such a program themselves.

fn main() -> std::process::ExitCode {
    #[cfg(target_os = "linux")]
    {
        branchyard_engine_process::run_command(std::env::args_os().skip(1).collect())
    }
    #[cfg(not(target_os = "linux"))]
    {
        std::process::ExitCode::FAILURE
    }
}
