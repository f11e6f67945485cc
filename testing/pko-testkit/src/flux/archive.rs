//! Archives in source-controller's format: a gzipped tar of plain files without owner.

use std::io::{self, Write as _};

use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{Builder, EntryType, Header};

/// An archive of files, given by path and content, with the folders that they are in.
pub(super) fn archive(files: &[(&str, &str)]) -> io::Result<Vec<u8>> {
    let mut tar = Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    let mut folders = Vec::new();
    for (path, content) in files {
        for folder in parents(path) {
            if !folders.contains(&folder) {
                folders.push(folder.clone());
                let mut header = header(EntryType::Directory, 0o750, 0);
                tar.append_data(&mut header, &folder, io::empty())?;
            }
        }
        let size = u64::try_from(content.len()).map_err(io::Error::other)?;
        let mut header = header(EntryType::Regular, 0o644, size);
        tar.append_data(&mut header, path, content.as_bytes())?;
    }
    let mut gzip = tar.into_inner()?;
    gzip.flush()?;
    gzip.finish()
}

fn parents(path: &str) -> Vec<String> {
    let ends = path.match_indices('/').map(|(end, _)| end);
    ends.filter_map(|end| path.get(..end).map(str::to_owned))
        .collect()
}

fn header(kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;
    use tar::Archive;

    use super::*;

    #[test]
    fn archive_holds_files_and_folders_without_owner() {
        let files = [
            ("Pulumi.yaml", "name: a"),
            ("deep/er/a.txt", "1"),
            ("deep/b.txt", "2"),
        ];
        let bytes = archive(&files).unwrap();
        assert_eq!(bytes, archive(&files).unwrap());
        let mut found = Vec::new();
        for entry in Archive::new(GzDecoder::new(bytes.as_slice()))
            .entries()
            .unwrap()
        {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().display().to_string();
            let mut content = String::new();
            entry.read_to_string(&mut content).unwrap();
            assert_eq!(
                (
                    entry.header().uid().unwrap(),
                    entry.header().mtime().unwrap()
                ),
                (0, 0)
            );
            found.push((path, content));
        }
        let expected = [
            ("Pulumi.yaml", "name: a"),
            ("deep", ""),
            ("deep/er", ""),
            ("deep/er/a.txt", "1"),
            ("deep/b.txt", "2"),
        ];
        assert_eq!(
            found,
            expected.map(|(path, content)| (path.to_owned(), content.to_owned()))
        );
    }
}
