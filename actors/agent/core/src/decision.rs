//! Decisions that ask for rows, in at most three rounds.
//!
//! A decision is a pure machine. It starts with facts, and either asks for rows or ends with its changes. The store answers a question
//! with one batch of statements, within the transaction that writes the changes, and knows no rule. Ids and times are facts.
//!
//! The types bound the rounds: the rows of the first and the second one lead to a further [`Step`], and those of the third one to the
//! changes. So this decision, which asks four times, does not compile:
//!
//! ```compile_fail
//! use svc_agent_core::decision::{Decision, First, Step};
//!
//! struct FourQuestions;
//!
//! impl Decision for FourQuestions {
//!     type Query = u8;
//!     type Rows = u8;
//!     type Changes = u8;
//! }
//!
//! fn start() -> Step<FourQuestions, First> {
//!     Step::load(1, |_| Step::load(2, |_| Step::load(3, |_| Step::load(4, |_| unreachable!()))))
//! }
//! ```

/// The types of a decision.
pub trait Decision: Sized + 'static {
    /// A question for rows.
    type Query: Send;
    /// The rows that answer it.
    type Rows: Send;
    /// The changes that follow.
    type Changes: Send;
}

mod sealed {
    /// Keeps further rounds out of other modules.
    pub trait Sealed {}

    impl Sealed for super::First {}
    impl Sealed for super::Second {}
    impl Sealed for super::Third {}
}

/// A round of questions.
pub trait Round: sealed::Sealed + 'static {
    /// The continuation after the rows of the round.
    type After<D: Decision>;

    /// The continuation that ends.
    fn end<D: Decision>(changes: D::Changes) -> Self::After<D>;
}

/// The first round.
pub struct First;
/// The second round.
pub struct Second;
/// The third round, which is the last one.
pub struct Third;

impl Round for First {
    type After<D: Decision> = Step<D, Second>;

    fn end<D: Decision>(changes: D::Changes) -> Self::After<D> {
        Step::Done(changes)
    }
}

impl Round for Second {
    type After<D: Decision> = Step<D, Third>;

    fn end<D: Decision>(changes: D::Changes) -> Self::After<D> {
        Step::Done(changes)
    }
}

impl Round for Third {
    type After<D: Decision> = D::Changes;

    fn end<D: Decision>(changes: D::Changes) -> Self::After<D> {
        changes
    }
}

/// Goes on with the rows of a round.
pub type Continuation<D, R> = Box<dyn FnOnce(<D as Decision>::Rows) -> <R as Round>::After<D> + Send>;

/// A state of a decision that may ask in a round.
pub enum Step<D: Decision, R: Round> {
    /// It asks, and goes on with the rows.
    Load(D::Query, Continuation<D, R>),
    /// It has ended.
    Done(D::Changes),
}

impl<D: Decision, R: Round> Step<D, R> {
    /// Asks, and goes on with the rows.
    pub fn load(query: D::Query, then: impl FnOnce(D::Rows) -> R::After<D> + Send + 'static) -> Self {
        Self::Load(query, Box::new(then))
    }
}

impl<D: Decision> Step<D, First> {
    /// Decides by rows in memory.
    pub fn decide(self, mut answer: impl FnMut(D::Query) -> D::Rows) -> D::Changes {
        let second = match self {
            Self::Done(changes) => return changes,
            Self::Load(query, then) => then(answer(query)),
        };
        let third = match second {
            Step::Done(changes) => return changes,
            Step::Load(query, then) => then(answer(query)),
        };
        match third {
            Step::Done(changes) => changes,
            Step::Load(query, then) => then(answer(query)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks for its numbers, one in each round.
    struct Questions;

    impl Decision for Questions {
        type Query = u8;
        type Rows = u8;
        type Changes = Vec<u8>;
    }

    fn ask(numbers: &[u8]) -> Step<Questions, First> {
        let [first, second, third] = [0, 1, 2].map(|round| numbers.get(round).copied());
        let Some(first) = first else { return Step::Done(Vec::new()) };
        Step::load(first, move |one| {
            let Some(second) = second else { return Step::Done(vec![one]) };
            Step::load(second, move |two| {
                let Some(third) = third else { return Step::Done(vec![one, two]) };
                Step::load(third, move |three| vec![one, two, three])
            })
        })
    }

    #[test]
    fn a_decision_asks_up_to_three_times_and_each_answer_is_that_of_its_question() {
        for numbers in [vec![], vec![1], vec![1, 2], vec![1, 2, 3]] {
            let mut asked = Vec::new();
            let changes = ask(&numbers).decide(|number| {
                asked.push(number);
                10 * number
            });
            assert_eq!(asked, numbers);
            assert_eq!(changes, numbers.iter().map(|number| 10 * number).collect::<Vec<u8>>());
        }
    }
}
