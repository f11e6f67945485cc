//! Secure, uniformly distributed random numbers from the operating system.

use ring::rand::{SecureRandom as _, SystemRandom};

use crate::ProviderError;

/// So many bytes.
pub(super) fn bytes(count: usize) -> Result<Vec<u8>, ProviderError> {
    let mut bytes = vec![0; count];
    fill(&mut bytes)?;
    Ok(bytes)
}

/// Fills a buffer.
pub(super) fn array<const COUNT: usize>() -> Result<[u8; COUNT], ProviderError> {
    let mut bytes = [0; COUNT];
    fill(&mut bytes)?;
    Ok(bytes)
}

fn fill(bytes: &mut [u8]) -> Result<(), ProviderError> {
    SystemRandom::new().fill(bytes).map_err(|_| {
        ProviderError::Failed("the operating system gave no random numbers; run again".to_owned())
    })
}

/// A number below a bound, which must not be zero.
pub(super) fn below(bound: u64) -> Result<u64, ProviderError> {
    loop {
        let number = u64::from_ne_bytes(array()?);
        // rejects the last partial range, which would bias the remainder
        let rounds = u64::MAX.checked_div(bound).ok_or_else(nothing)?;
        if number < rounds.saturating_mul(bound) {
            return number.checked_rem(bound).ok_or_else(nothing);
        }
    }
}

/// One of several.
pub(super) fn pick<T: Copy>(choices: &[T]) -> Result<T, ProviderError> {
    let index = index_below(choices.len())?;
    choices.get(index).copied().ok_or_else(nothing)
}

/// Shuffles uniformly.
pub(super) fn shuffle<T>(things: &mut [T]) -> Result<(), ProviderError> {
    for last in (1..things.len()).rev() {
        things.swap(last, index_below(last + 1)?);
    }
    Ok(())
}

/// An index below a bound.
pub(super) fn index_below(bound: usize) -> Result<usize, ProviderError> {
    let bound = u64::try_from(bound).map_err(|_| nothing())?;
    usize::try_from(below(bound)?).map_err(|_| nothing())
}

fn nothing() -> ProviderError {
    ProviderError::Failed("there is nothing to choose from".to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn randomness_below_reaches_every_number() {
        for bound in [1, 2, 3, 7, 21] {
            let seen: BTreeSet<_> = (0..2000).map(|_| below(bound).unwrap()).collect();
            assert_eq!(seen, (0..bound).collect(), "{bound}");
        }
        assert!(below(u64::MAX).is_ok());
        assert!(below(0).is_err());
    }

    #[test]
    fn randomness_pick_from_empty_fails() {
        assert!(pick::<char>(&[]).is_err());
        assert_eq!(pick(&['x']), Ok('x'));
    }

    #[test]
    fn randomness_shuffle_keeps_all_entries() {
        for count in 0..20 {
            let mut things: Vec<_> = (0..count).collect();
            shuffle(&mut things).unwrap();
            things.sort_unstable();
            assert_eq!(things, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn randomness_bytes_differ() {
        assert_eq!(bytes(0).unwrap().len(), 0);
        assert_eq!(bytes(33).unwrap().len(), 33);
        assert_ne!(bytes(32).unwrap(), bytes(32).unwrap());
        assert_ne!(array::<32>().unwrap(), array::<32>().unwrap());
    }
}
