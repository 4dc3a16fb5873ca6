//! The number of transactions that may be in flight at once, adapted like a congestion window of TCP. Pure.

/// Size at the start.
const INITIAL_SIZE: usize = 256;
/// Largest size.
const MAX_SIZE: usize = 1_024;
/// Growth with every clean block after the first setback.
const GROWTH_STEP: usize = 32;

/// The configured bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum WindowBound {
    /// Doubles with every clean block until the first setback, then grows in steps; halves with every setback.
    #[default]
    Adaptive,
    /// This size, always.
    Fixed(usize),
}

/// The window.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct InFlightWindow {
    bound: WindowBound,
    size: usize,
    /// Size from which it grows in steps.
    threshold: usize,
    /// Whether a transaction was included since the last block.
    had_inclusion: bool,
    had_setback: bool,
}

impl InFlightWindow {
    pub fn new(bound: WindowBound) -> Self {
        let size = match bound {
            WindowBound::Adaptive => INITIAL_SIZE,
            WindowBound::Fixed(size) => size.clamp(1, MAX_SIZE),
        };
        Self { bound, size, threshold: MAX_SIZE, had_inclusion: false, had_setback: false }
    }

    pub fn size(&self) -> usize {
        self.size
    }

    /// A transaction was included.
    pub fn record_inclusion(&mut self) {
        self.had_inclusion = true;
    }

    /// A sequence was wrong, or the mempool full. One block has one setback, however many transactions meet it.
    pub fn record_setback(&mut self) {
        if self.bound == WindowBound::Adaptive && !self.had_setback {
            self.size = (self.size / 2).max(1);
            self.threshold = self.size;
        }
        self.had_setback = true;
    }

    /// A block has passed.
    pub fn on_block(&mut self) {
        if self.bound == WindowBound::Adaptive && self.had_inclusion && !self.had_setback {
            let grown = if self.size < self.threshold { self.size * 2 } else { self.size + GROWTH_STEP };
            self.size = grown.min(MAX_SIZE);
        }
        (self.had_inclusion, self.had_setback) = (false, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_until_the_first_setback_halves_there_and_then_grows_in_steps() {
        let mut window = InFlightWindow::new(WindowBound::Adaptive);
        let clean = |window: &mut InFlightWindow| {
            window.record_inclusion();
            window.on_block();
            window.size()
        };
        assert_eq!([clean(&mut window), clean(&mut window), clean(&mut window)], [512, 1_024, 1_024]);
        window.record_setback();
        window.record_setback();
        assert_eq!(window.size(), 512, "one setback a block");
        window.record_inclusion();
        window.on_block();
        assert_eq!(window.size(), 512, "that block was not clean");
        assert_eq!([clean(&mut window), clean(&mut window)], [544, 576]);
        window.on_block();
        assert_eq!(window.size(), 576, "an idle block proves nothing");
        for _ in 0..20 {
            window.record_setback();
            window.on_block();
        }
        assert_eq!(window.size(), 1);
    }

    #[test]
    fn a_fixed_one_stays() {
        let mut window = InFlightWindow::new(WindowBound::Fixed(8));
        window.record_setback();
        window.record_inclusion();
        window.on_block();
        assert_eq!(window.size(), 8);
        assert_eq!(InFlightWindow::new(WindowBound::Fixed(0)).size(), 1);
    }
}
