//! The workspace agent; see the library beside it.

fn main() -> std::process::ExitCode {
    pko_agent::main()
}
