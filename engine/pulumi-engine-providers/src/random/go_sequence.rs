//! Seeded random numbers: the sequence of Go's `math/rand`, which Pulumi's plugin uses, so that a
//! seed gives the same result.

use std::collections::VecDeque;

use super::go_table::START;

const LONG_LAG: usize = 607;
const SHORT_LAG: usize = 273;
const LARGEST_31: u64 = (1 << 31) - 1;
const LARGEST_63: u64 = (1 << 63) - 1;

/// A lagged Fibonacci generator: each number is the sum of the ones 607 and 273 before it.
pub(super) struct GoSequence {
    /// The last numbers, oldest first.
    history: VecDeque<u64>,
}

impl GoSequence {
    /// The sequence of a seed.
    pub(super) fn seeded(seed: &str) -> Self {
        let mut small = start(checksum(seed.as_bytes()).cast_signed());
        for _ in 0..20 {
            small = step(small);
        }
        let mut places = Vec::with_capacity(LONG_LAG);
        for number in START {
            let mut place = number.cast_unsigned();
            for shift in [40, 20, 0] {
                small = step(small);
                place ^= small << shift;
            }
            places.push(place);
        }
        // Go walks its state downwards, and starts at the short lag
        let (first, second) = places.split_at(LONG_LAG - SHORT_LAG);
        Self {
            history: first
                .iter()
                .rev()
                .chain(second.iter().rev())
                .copied()
                .collect(),
        }
    }

    fn next(&mut self) -> u64 {
        let near = self.history.get(LONG_LAG - SHORT_LAG).copied();
        let far = self.history.pop_front();
        let next = far
            .unwrap_or_default()
            .wrapping_add(near.unwrap_or_default());
        self.history.push_back(next);
        next
    }

    fn next_63(&mut self) -> u64 {
        self.next() & LARGEST_63
    }

    fn next_31(&mut self) -> u64 {
        self.next_63() >> 32
    }

    /// A number below a bound, as Go's `Intn` finds it; the bound is at least one.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        let bound = bound.max(1);
        if bound <= LARGEST_31 {
            Self::fair(bound, LARGEST_31, || self.next_31())
        } else {
            Self::fair(bound, LARGEST_63, || self.next_63())
        }
    }

    /// Skips numbers that would bias the result.
    fn fair(bound: u64, largest: u64, mut next: impl FnMut() -> u64) -> u64 {
        let limit = largest - (largest + 1) % bound;
        loop {
            let number = next();
            if number <= limit {
                return number % bound;
            }
        }
    }

    /// An order of so many things, as Go's `Perm` finds it.
    pub(super) fn order(&mut self, count: usize) -> Vec<usize> {
        let mut order = Vec::with_capacity(count);
        for last in 0..count {
            order.push(last);
            let bound = u64::try_from(last).unwrap_or(u64::MAX).saturating_add(1);
            order.swap(last, usize::try_from(self.below(bound)).unwrap_or(last));
        }
        order
    }
}

/// The start of the numbers that initialize the state.
fn start(seed: i64) -> u64 {
    let seed = seed.rem_euclid(LARGEST_31.cast_signed()).cast_unsigned();
    if seed == 0 { 89_482_311 } else { seed }
}

fn step(small: u64) -> u64 {
    small * 48_271 % LARGEST_31
}

/// CRC-64 with the polynomial of ISO 3309.
fn checksum(bytes: &[u8]) -> u64 {
    !bytes.iter().fold(u64::MAX, |sum, byte| {
        (0..8).fold(sum ^ u64::from(*byte), |sum, _| {
            let polynomial = if sum & 1 == 1 {
                0xd800_0000_0000_0000
            } else {
                0
            };
            (sum >> 1) ^ polynomial
        })
    })
}

/// All expectations are what a Go program printed.
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc64_matches_go() {
        for (seed, sum) in [
            ("12345", 0x45a4_1001_b320_0000),
            ("a", 0x3420_0000_0000_0000),
            ("seed", 0x3362_d2cc_4000_0000),
            ("über", 0x2dc2_d661_0940_0000),
        ] {
            assert_eq!(checksum(seed.as_bytes()), sum, "{seed}");
        }
    }

    #[test]
    #[expect(clippy::unreadable_literal, reason = "as Go printed them")]
    fn go_sequence_numbers_match_go() {
        for (seed, first, last) in [
            (
                "12345",
                [
                    6207398735832905869,
                    7749408771572126437,
                    16916150855631632009,
                ],
                6778730028880474008,
            ),
            (
                "über",
                [
                    3724101437046174175,
                    4923631430072562008,
                    17821480167182806008,
                ],
                3920150214293312910,
            ),
            (
                "0",
                [
                    12588502102933117440,
                    1249046441231083879,
                    14587394146370231095,
                ],
                13386443775344427368,
            ),
        ] {
            let mut sequence = GoSequence::seeded(seed);
            assert_eq!([(); 3].map(|()| sequence.next()), first, "{seed}");
            // the 2000th: the whole state was replaced more than twice
            assert_eq!(
                (3..2000).map(|_| sequence.next()).last(),
                Some(last),
                "{seed}"
            );
        }
    }

    #[test]
    fn go_sequence_bounds_match_go() {
        for (seed, results) in [
            (
                "12345",
                [43, 2, 67, 344_422_541, 1_438_449_316_363_070, 1_445_272_643],
            ),
            (
                "a",
                [
                    82,
                    1,
                    14,
                    1_292_098_073,
                    3_527_294_723_546_410,
                    1_647_085_582,
                ],
            ),
            (
                "seed",
                [
                    46,
                    1,
                    994,
                    1_614_137_400,
                    7_705_250_252_573_042,
                    660_299_746,
                ],
            ),
        ] {
            let bounds = [100, 3, 1024, 1 << 32, 9_007_199_254_740_991, LARGEST_31];
            let found = bounds.map(|bound| GoSequence::seeded(seed).below(bound));
            assert_eq!(found, results, "{seed}");
        }
    }

    #[test]
    fn go_sequence_permutations_match_go() {
        for (seed, five, ten) in [
            ("12345", [4, 2, 0, 1, 3], [4, 5, 0, 6, 7, 2, 8, 9, 1, 3]),
            ("a", [4, 1, 0, 3, 2], [4, 1, 9, 3, 2, 0, 7, 6, 5, 8]),
            ("seed", [3, 0, 4, 1, 2], [3, 9, 8, 5, 2, 1, 0, 7, 4, 6]),
        ] {
            assert_eq!(GoSequence::seeded(seed).order(5), five, "{seed}");
            assert_eq!(GoSequence::seeded(seed).order(10), ten, "{seed}");
        }
        assert!(GoSequence::seeded("a").order(0).is_empty());
    }
}
