//! Verifies the digest of a downloaded artifact.

use std::{fs::File, io, path::Path};

use sha2::{Digest, Sha256, Sha384, Sha512};

#[derive(Debug, thiserror::Error)]
pub enum DigestError {
    #[error("the digest is empty")]
    Empty,
    #[error("unsupported digest algorithm `{0}`: use sha256, sha384, sha512 or blake3")]
    UnknownAlgorithm(String),
    #[error("computed digest doesn't match provided '{expected}': it is '{actual}'")]
    Mismatch { expected: String, actual: String },
    #[error("failed to read the artifact")]
    Read(#[source] io::Error),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct ExpectedDigest {
    algorithm: Algorithm,
    hex: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Algorithm {
    Sha256,
    Sha384,
    Sha512,
    Blake3,
}

impl ExpectedDigest {
    /// Parses `algorithm:hex`. A digest without an algorithm is SHA-256.
    pub(super) fn parse(text: &str) -> Result<Self, DigestError> {
        let (algorithm, hex) = text.split_once(':').unwrap_or(("sha256", text));
        if hex.is_empty() {
            return Err(DigestError::Empty);
        }
        let algorithm = match algorithm {
            "sha256" => Algorithm::Sha256,
            "sha384" => Algorithm::Sha384,
            "sha512" => Algorithm::Sha512,
            "blake3" => Algorithm::Blake3,
            other => return Err(DigestError::UnknownAlgorithm(other.to_owned())),
        };
        let hex = hex.to_ascii_lowercase();
        Ok(Self { algorithm, hex })
    }

    pub(super) fn verify(&self, file: &Path) -> Result<(), DigestError> {
        let file = File::open(file).map_err(DigestError::Read)?;
        let actual = self.algorithm.compute(file).map_err(DigestError::Read)?;
        if actual == self.hex {
            return Ok(());
        }
        Err(DigestError::Mismatch {
            expected: self.hex.clone(),
            actual,
        })
    }
}

impl Algorithm {
    fn compute(self, file: File) -> io::Result<String> {
        match self {
            Self::Sha256 => hash_file(Sha256::new(), file),
            Self::Sha384 => hash_file(Sha384::new(), file),
            Self::Sha512 => hash_file(Sha512::new(), file),
            Self::Blake3 => {
                let mut hasher = blake3::Hasher::new();
                hasher.update_reader(file)?;
                Ok(hasher.finalize().to_hex().to_string())
            }
        }
    }
}

fn hash_file(mut hasher: impl Digest, mut file: File) -> io::Result<String> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = io::Read::read(&mut file, &mut buffer)?;
        if count == 0 {
            break;
        }
        hasher.update(buffer.get(..count).unwrap_or_default());
    }
    Ok(hex::encode(hasher.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_matches_known_values() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "abc").unwrap();
        let good = [
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD",
            "sha384:cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7",
            "sha512:ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
            "blake3:6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85",
        ];
        for digest in good {
            ExpectedDigest::parse(digest)
                .unwrap()
                .verify(&file)
                .unwrap();
        }
        let wrong = ExpectedDigest::parse("sha512:00")
            .unwrap()
            .verify(&file)
            .unwrap_err();
        assert!(
            wrong
                .to_string()
                .starts_with("computed digest doesn't match provided '00'")
        );
    }

    #[test]
    fn digest_invalid_text_is_rejected() {
        assert!(matches!(ExpectedDigest::parse(""), Err(DigestError::Empty)));
        assert!(matches!(
            ExpectedDigest::parse("sha256:"),
            Err(DigestError::Empty)
        ));
        assert!(matches!(
            ExpectedDigest::parse("md5:00"),
            Err(DigestError::UnknownAlgorithm(_))
        ));
    }
}
