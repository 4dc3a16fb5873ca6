//! How many transactions may be in flight at once: like a congestion window of TCP. Pure.

/// Where it begins.
const FIRST: usize = 256;
/// Where it ends.
const LARGEST: usize = 1_024;
/// What a clean block adds once something has gone wrong before.
const STEP: usize = 32;

/// The bound that was configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum WindowBound {
    /// Doubles with every clean block until the first setback, then grows in steps; halves with every setback.
    #[default]
    Adaptive,
    /// Always this many.
    Fixed(usize),
}

/// The window.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Window {
    bound: WindowBound,
    size: usize,
    /// Beyond this it grows in steps.
    threshold: usize,
    /// What the blocks since the last growth have brought.
    had_inclusion: bool,
    had_setback: bool,
}

impl Window {
    pub fn new(bound: WindowBound) -> Self {
        let size = match bound {
            WindowBound::Adaptive => FIRST,
            WindowBound::Fixed(size) => size.clamp(1, LARGEST),
        };
        Self { bound, size, threshold: LARGEST, had_inclusion: false, had_setback: false }
    }

    pub fn size(&self) -> usize {
        self.size
    }

    /// A transaction was included.
    pub fn included(&mut self) {
        self.had_inclusion = true;
    }

    /// A sequence was wrong, or the mempool full. One block has one setback, however many transactions meet it.
    pub fn set_back(&mut self) {
        if self.bound == WindowBound::Adaptive && !self.had_setback {
            self.size = (self.size / 2).max(1);
            self.threshold = self.size;
        }
        self.had_setback = true;
    }

    /// A block has passed.
    pub fn block(&mut self) {
        if self.bound == WindowBound::Adaptive && self.had_inclusion && !self.had_setback {
            let grown = if self.size < self.threshold { self.size * 2 } else { self.size + STEP };
            self.size = grown.min(LARGEST);
        }
        (self.had_inclusion, self.had_setback) = (false, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_until_the_first_setback_halves_there_and_then_grows_in_steps() {
        let mut window = Window::new(WindowBound::Adaptive);
        let clean = |window: &mut Window| {
            window.included();
            window.block();
            window.size()
        };
        assert_eq!([clean(&mut window), clean(&mut window), clean(&mut window)], [512, 1_024, 1_024]);
        window.set_back();
        window.set_back();
        assert_eq!(window.size(), 512, "one setback a block");
        window.included();
        window.block();
        assert_eq!(window.size(), 512, "that block was not clean");
        assert_eq!([clean(&mut window), clean(&mut window)], [544, 576]);
        window.block();
        assert_eq!(window.size(), 576, "an idle block proves nothing");
        for _ in 0..20 {
            window.set_back();
            window.block();
        }
        assert_eq!(window.size(), 1);
    }

    #[test]
    fn a_fixed_one_stays() {
        let mut window = Window::new(WindowBound::Fixed(8));
        window.set_back();
        window.included();
        window.block();
        assert_eq!(window.size(), 8);
        assert_eq!(Window::new(WindowBound::Fixed(0)).size(), 1);
    }
}
