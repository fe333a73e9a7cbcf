//! Records which code an input reached. `cargo xtask fuzz` builds with a counter at each edge of the control flow (the inline 8-bit
//! counters of LLVM's SanitizerCoverage). Any other build has no counters, and its coverage never grows.

/// The code that all inputs together have reached.
pub(super) struct Coverage {
    /// For each edge, the buckets of counts that occurred, as bits.
    reached: Vec<u8>,
    edges: usize,
}

impl Coverage {
    /// Creates an empty coverage, and clears the counters.
    pub(super) fn new() -> Self {
        counters::take(|_, _| {});
        Self { reached: vec![0; counters::len()], edges: 0 }
    }

    /// Returns `true` if the last input reached a new edge, or ran an edge in a new bucket of counts. Code that other threads ran since
    /// the last call counts too.
    pub(super) fn grew(&mut self) -> bool {
        let mut grew = false;
        counters::take(|edge, count| {
            let bucket = bucket(count);
            self.edges += usize::from(self.reached[edge] == 0);
            grew |= self.reached[edge] & bucket == 0;
            self.reached[edge] |= bucket;
        });
        grew
    }

    /// Returns how many edges were reached, or 0 in a build without counters.
    pub(super) fn edges(&self) -> usize {
        self.edges
    }
}

/// Returns the bit of a count's bucket. A loop that ran 40 times instead of 41 does not make an input worth keeping.
fn bucket(count: u8) -> u8 {
    match count {
        0 => 0,
        1 => 1,
        2 => 1 << 1,
        3 => 1 << 2,
        4..8 => 1 << 3,
        8..16 => 1 << 4,
        16..32 => 1 << 5,
        32..128 => 1 << 6,
        128.. => 1 << 7,
    }
}

#[cfg(sancov)]
mod counters {
    #![expect(unsafe_code, reason = "the compiler hands the counters over as two addresses")]

    use std::sync::atomic::Ordering::Relaxed;
    use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64};

    static START: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
    static STOP: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());

    /// Receives the addresses of the counters. Each object of the program calls it before `main`, with the same addresses.
    #[unsafe(no_mangle)]
    extern "C" fn __sanitizer_cov_8bit_counters_init(start: *mut u8, stop: *mut u8) {
        START.store(start, Relaxed);
        STOP.store(stop, Relaxed);
    }

    fn all() -> &'static [AtomicU8] {
        let (start, stop) = (START.load(Relaxed), STOP.load(Relaxed));
        if start.is_null() {
            return &[];
        }
        // SAFETY: the counters lie between the two addresses for as long as the program runs, and no other reference to them exists.
        unsafe { std::slice::from_raw_parts(start.cast(), stop as usize - start as usize) }
    }

    pub(super) fn len() -> usize {
        all().len()
    }

    /// Passes each edge that was reached and its count to `each`, and clears the counters.
    pub(super) fn take(mut each: impl FnMut(usize, u8)) {
        let mut take = |from: usize, to: usize| {
            for (at, counter) in all()[from..to].iter().enumerate() {
                let count = counter.load(Relaxed);
                if count > 0 {
                    counter.store(0, Relaxed);
                    each(from + at, count);
                }
            }
        };
        // Most of the million counters are zero, so 64 of them are read together.
        // SAFETY: eight one-byte counters are valid as one 64-bit number.
        let (head, lines, _) = unsafe { all().align_to::<[AtomicU64; 8]>() };
        take(0, head.len());
        for (at, line) in lines.iter().enumerate() {
            if line.iter().fold(0, |any, word| any | word.load(Relaxed)) > 0 {
                take(head.len() + at * 64, head.len() + (at + 1) * 64);
            }
        }
        take(head.len() + lines.len() * 64, all().len());
    }
}

#[cfg(not(sancov))]
mod counters {
    pub(super) fn len() -> usize {
        0
    }

    pub(super) fn take(_: impl FnMut(usize, u8)) {}
}

#[cfg(all(test, sancov))]
mod tests {
    use super::Coverage;

    #[test]
    fn what_was_reached_once_is_not_new_again() {
        fn path(input: &str) -> usize {
            if input.starts_with('x') { input.len() } else { input.chars().rev().count() }
        }
        // Other threads reach code too, so a few attempts may see something new.
        let mut coverage = Coverage::new();
        std::hint::black_box(path("x"));
        assert!(coverage.grew());
        let quiet = (0..100)
            .filter(|_| {
                std::hint::black_box(path("x"));
                !coverage.grew()
            })
            .count();
        assert!(quiet > 90, "{quiet}");
        std::hint::black_box(path("y"));
        assert!(coverage.grew());
    }
}
