//! A process group that is killed, and its folder removed, when this process ends.

use std::io;
use std::path::Path;

use crate::lifeline::Lifeline;

/// `kill -KILL 0` ends the shell too, so it is last. The folder is renamed first: processes that
/// still run find nothing under the old name, and can't add files to what is being removed.
const SCRIPT: &str = r#"
mv -- "$1" "$1.removed" && rm -rf -- "$1.removed"
kill -KILL 0
"#;

/// Kills its processes and removes its folder when it is dropped, or when this process ends.
pub(crate) struct ProcessGroup(Lifeline);

impl ProcessGroup {
    pub(crate) fn new(folder: &Path) -> io::Result<Self> {
        let lifeline = Lifeline::start("pko-testkit-process-group", SCRIPT, [folder])?;
        Ok(Self(lifeline))
    }

    /// The process that leads the group.
    pub(crate) fn leader(&self) -> u32 {
        self.0.id()
    }

    /// The id for processes that join the group.
    pub(crate) fn id(&self) -> io::Result<i32> {
        i32::try_from(self.leader()).map_err(io::Error::other)
    }

    /// Kills the group and removes the folder. Dropping does the same.
    pub(crate) fn kill(&mut self) {
        self.0.run();
    }
}
