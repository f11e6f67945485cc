//! The certain end of processes and of the folder that they work in.
//!
//! A keeper, which is a few lines of shell, leads a process group that the processes join. It waits
//! for the end of its standard input, whose other end only this process holds. Whether that is
//! closed on drop or by the death of this process, even by SIGKILL, the keeper then removes the
//! folder and kills its group. It is not in the terminal's foreground group, so Ctrl-C reaches this
//! process first, never what it started alone.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// `kill -KILL 0` ends the keeper too, so it is last. The directory gets another name first: what
/// still runs then finds nothing under the old one, and can't add a file to what is being removed.
const KEEPER: &str = r#"
trap '' HUP INT TERM
while read -r _; do :; done
mv -- "$1" "$1.removed" && rm -rf -- "$1.removed"
kill -KILL 0
"#;

/// Ends its group and removes its folder when it is dropped, or when this process ends.
pub(crate) struct Keeper {
    child: Child,
    lifeline: Option<ChildStdin>,
}

impl Keeper {
    /// Starts the keeper of a folder.
    pub(crate) fn new(folder: &Path) -> io::Result<Self> {
        let mut child = Command::new("sh")
            .args(["-c", KEEPER, "pko-testkit-keeper"])
            .arg(folder)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let lifeline = child.stdin.take();
        Ok(Self { child, lifeline })
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The group to join.
    pub(crate) fn group(&self) -> io::Result<i32> {
        i32::try_from(self.id()).map_err(io::Error::other)
    }

    /// Ends the group and removes the folder; what [`Drop`] does, at a moment of choice.
    pub(crate) fn end(&mut self) {
        drop(self.lifeline.take());
        let _ = self.child.wait();
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.end();
    }
}
