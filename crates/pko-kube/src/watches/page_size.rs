//! How many objects a page of a list has.
//!
//! A page is in memory as a whole, and a tenant can make each object 1.5 MB large. So pages begin
//! small, and grow while their objects are small.

/// Of the first page.
pub(super) const FIRST: u32 = 20;
const LARGEST: u32 = 500;
/// What a page should have.
const PAGE_BYTES: usize = 4 * 1024 * 1024;
/// How much faster than the last one a page may grow.
const GROWTH: u32 = 5;

/// How many objects the page after this one has.
pub(super) fn next_page_size(page_size: u32, items: usize, bytes: usize) -> u32 {
    let bytes_each = bytes / items.max(1);
    let fitting = u32::try_from(PAGE_BYTES / bytes_each.max(1)).unwrap_or(LARGEST);
    let largest = page_size.saturating_mul(GROWTH).min(LARGEST);
    fitting.clamp(1, largest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_size_follows_the_size_of_objects() {
        assert_eq!(next_page_size(FIRST, 20, 20 * 5_000), 100);
        assert_eq!(next_page_size(100, 100, 100 * 5_000), 500);
        assert_eq!(next_page_size(500, 500, 500 * 5_000), 500);
        assert_eq!(next_page_size(500, 500, 500 * 100_000), 41);
        assert_eq!(next_page_size(41, 41, 41 * 1_500_000), 2);
        assert_eq!(next_page_size(2, 1, 9_000_000), 1);
        assert_eq!(next_page_size(1, 0, 200), 5, "an empty page");
    }
}
