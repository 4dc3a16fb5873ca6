//! The steps of a rotation of the document's keys, and their times. Pure.
//!
//! A step is one version of the document, or one duty of the credential keeper, and can be repeated: a crash in a step, or behind it and
//! before the store has its phase, runs it once more. A pause lies behind each version that a resolver with an older document could
//! misread.

use std::time::Duration;

use svc_agent_core::error::{Refusal, RefusalCode};
use svc_agent_store::{KeyUse, RotationPhase, StoredRotation};
use svc_kit::backoff::Backoff;

/// Pauses between attempts of a step that fails.
const FAILURE_BACKOFF: Backoff =
    Backoff { initial: Duration::from_secs(1), max: Duration::from_secs(300), factor: 2.0, jitter: 0.2 };

/// The pauses of a rotation. Tests have shorter ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RotationPauses {
    /// Between two steps: an evaluation takes 20 s, and may hold a document of its begin until its end.
    pub between_steps: Duration,
    /// Between two looks at the credentials that need a retired key: they live for months.
    pub between_looks: Duration,
}

impl Default for RotationPauses {
    fn default() -> Self {
        Self { between_steps: Duration::from_secs(30), between_looks: Duration::from_secs(3_600) }
    }
}

/// The two clocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clocks {
    /// Time since the start of the actor, which never goes back.
    pub running: Duration,
    /// Seconds since the epoch, for the store.
    pub wall: i64,
}

/// The choices of a caller.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RotationOptions {
    /// Own credentials are to be proven by the new pair.
    pub reissue: bool,
    /// The old pairs leave the document at once.
    pub is_compromised: bool,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RotationStep {
    /// Adds the new pair to the document.
    AddKeys,
    /// Puts the new pair before the old one, and signs the presentations with it.
    ResignPresentations,
    /// Takes the old pair out of authentication and key agreement.
    RetireOld,
    /// Replaces own credentials that the old pair proves.
    ReissueOwn,
    /// Counts the credentials that need the retired keys.
    CountUses,
    /// Takes retired keys out of the document.
    RemoveOld {
        /// Ids of their verification methods.
        methods: Vec<String>,
    },
    /// Puts the new pair in the place of all others, in one version with presentations that it signs.
    ReplaceAll,
}

impl RotationStep {
    /// Whether the step is a version of the document. The keeper ends it within its own time limits.
    fn changes_document(&self) -> bool {
        match self {
            Self::AddKeys | Self::ResignPresentations | Self::RetireOld | Self::RemoveOld { .. } | Self::ReplaceAll => {
                true
            }
            Self::ReissueOwn | Self::CountUses => false,
        }
    }
}

/// The end of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepEnd {
    /// The step has its effect.
    Done {
        /// Whether the document has retired keys now.
        has_retired: bool,
    },
    /// The credentials were counted, for each retired key of the document.
    Counted(Vec<KeyUse>),
    /// A later attempt may succeed; nothing of the step is published.
    Failed,
}

/// An action that the actor has to take, in the order of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RotationEffect {
    /// Write the state to the store. A step behind it waits for it.
    Save(StoredRotation),
    /// Remove the state of a version from the store.
    End { new_version: u64 },
    /// Run a step. `new_version` is 0 for a step of no rotation.
    Run { new_version: u64, step: RotationStep },
    /// Wake the core after this pause.
    Wake(Duration),
}

/// The state of the document and of the store at a start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct DocumentFacts {
    /// Whether the document names the pair of the stored rotation.
    pub has_new: bool,
    /// Whether the document has retired keys.
    pub has_retired: bool,
}

/// A request that was admitted.
#[derive(Debug, Clone, Copy)]
struct AdmittedRequest {
    new_version: u64,
    options: RotationOptions,
}

/// The rotation that runs, and the retired keys of the document.
pub(super) struct RotationCore {
    pauses: RotationPauses,
    rotation: Option<StoredRotation>,
    /// The rotation that this one has replaced, until the first version of this one is published.
    replaced: Option<StoredRotation>,
    /// Begins when the running step has ended.
    queued: Option<AdmittedRequest>,
    running: Option<RotationStep>,
    /// Whether the caller of the rotation waits for its first version.
    has_caller: bool,
    has_retired: bool,
    /// Retired keys that no live credential needs.
    removable: Vec<String>,
    /// Earliest next step.
    due: Duration,
    failures: u32,
}

impl RotationCore {
    /// Continues the rotation of the store, whose phase has lasted for `age`. The pause counts from now at the latest: the clock may have
    /// been set back.
    pub fn new(
        stored: Option<StoredRotation>,
        facts: DocumentFacts,
        age: Duration,
        pauses: RotationPauses,
        now: Clocks,
    ) -> Self {
        let rotation = stored.map(|stored| if facts.has_new { stored } else { without_new_pair(stored) });
        let mut core = Self {
            pauses,
            rotation,
            replaced: None,
            queued: None,
            running: None,
            has_caller: false,
            has_retired: facts.has_retired,
            removable: Vec::new(),
            due: Duration::ZERO,
            failures: 0,
        };
        core.due = now.running + core.pause_of_phase().saturating_sub(age);
        core
    }

    /// The phase of the rotation that runs.
    pub fn phase(&self) -> Option<RotationPhase> {
        self.rotation.map(|rotation| rotation.phase)
    }

    /// Takes a request; `newest_version` is that of the store. Returns the version of the new pair.
    pub fn request(
        &mut self,
        options: RotationOptions,
        newest_version: u64,
        now: Clocks,
    ) -> Result<(u64, Vec<RotationEffect>), Refusal> {
        if self.queued.is_some() || !self.admits(options) {
            return Err(self.refusal());
        }
        let new_version = self.version().max(newest_version) + 1;
        let request = AdmittedRequest { new_version, options };
        if self.running.as_ref().is_some_and(RotationStep::changes_document) {
            // Two versions of two rotations at once could reach the keeper in either order.
            self.queued = Some(request);
            return Ok((new_version, Vec::new()));
        }
        Ok((new_version, self.begin(request, now)))
    }

    /// The time for a step may have come.
    pub fn woken(&mut self, now: Clocks) -> Vec<RotationEffect> {
        self.advance(now)
    }

    /// A step has ended; `random` is uniform in 0..1. The end of a step that nothing waits for any more is ignored.
    pub fn ended(
        &mut self,
        (new_version, step): (u64, &RotationStep),
        end: StepEnd,
        now: Clocks,
        random: f64,
    ) -> Vec<RotationEffect> {
        if self.version() != new_version || self.running.as_ref() != Some(step) {
            return Vec::new();
        }
        self.running = None;
        let mut effects = match end {
            StepEnd::Done { has_retired } => self.pass(step, has_retired, now),
            StepEnd::Counted(uses) => {
                self.take_uses(uses, now);
                Vec::new()
            }
            StepEnd::Failed => self.fail(now, random),
        };
        effects.extend(match self.queued.take() {
            Some(request) => self.begin(request, now),
            None => self.advance(now),
        });
        effects
    }

    /// Version of the pair of the rotation; 0 without one.
    fn version(&self) -> u64 {
        self.rotation.map_or(0, |rotation| rotation.new_version)
    }

    /// A rotation whose new pair is in use waits for credentials only, which may take months: it hinders no other one. A compromised key
    /// hinders everything but itself.
    fn admits(&self, options: RotationOptions) -> bool {
        let Some(rotation) = self.rotation else { return true };
        match rotation.phase {
            RotationPhase::Retired | RotationPhase::Reissued | RotationPhase::Replaced => true,
            // A step between two attempts has published nothing, and may never do.
            RotationPhase::Requested if self.running.is_none() && self.failures > 0 => {
                options.is_compromised || !rotation.is_compromised
            }
            RotationPhase::Requested => options.is_compromised && !rotation.is_compromised,
            RotationPhase::Added | RotationPhase::Resigned => options.is_compromised,
        }
    }

    fn refusal(&self) -> Refusal {
        let phase = self.phase().unwrap_or(RotationPhase::Requested).as_str();
        let is_compromised = self.queued.is_some() || self.rotation.is_some_and(|rotation| rotation.is_compromised);
        let next =
            if is_compromised { "it replaces every key" } else { "only `compromised` does not wait for its end" };
        let message = format!("a rotation of the document's keys is in the phase {phase:?}: {next}");
        Refusal::new(RefusalCode::InvalidState, message)
    }

    fn begin(&mut self, request: AdmittedRequest, now: Clocks) -> Vec<RotationEffect> {
        let AdmittedRequest { new_version, options } = request;
        let RotationOptions { reissue, is_compromised } = options;
        self.replaced = self.rotation.take();
        // Own credentials that still have to be proven by a new pair get the newest one.
        let reissue = reissue || self.replaced.is_some_and(|replaced| has_to_reissue(&replaced));
        let phase = RotationPhase::Requested;
        let rotation = StoredRotation { new_version, phase, since: now.wall, reissue, is_compromised };
        self.rotation = Some(rotation);
        (self.running, self.has_caller) = (None, true);
        (self.failures, self.due) = (0, now.running);
        self.removable.clear();
        let mut effects = vec![RotationEffect::Save(rotation)];
        effects.extend(self.advance(now));
        effects
    }

    fn pass(&mut self, step: &RotationStep, has_retired: bool, now: Clocks) -> Vec<RotationEffect> {
        self.has_retired = has_retired;
        self.failures = 0;
        self.removable.clear();
        let phase = match step {
            RotationStep::AddKeys => RotationPhase::Added,
            RotationStep::ReplaceAll => RotationPhase::Replaced,
            RotationStep::ResignPresentations => RotationPhase::Resigned,
            RotationStep::RetireOld => RotationPhase::Retired,
            RotationStep::ReissueOwn => RotationPhase::Reissued,
            RotationStep::RemoveOld { .. } | RotationStep::CountUses => {
                self.due = now.running;
                return Vec::new();
            }
        };
        (self.has_caller, self.replaced) = (false, None);
        let Some(rotation) = &mut self.rotation else { return Vec::new() };
        (rotation.phase, rotation.since) = (phase, now.wall);
        let saved = RotationEffect::Save(*rotation);
        self.due = now.running + self.pause_of_phase();
        vec![saved]
    }

    fn take_uses(&mut self, uses: Vec<KeyUse>, now: Clocks) {
        self.failures = 0;
        self.has_retired = !uses.is_empty();
        let unused = uses.into_iter().filter(|key| key.credentials == 0);
        self.removable = unused.map(|key| key.method).collect();
        let pause = if self.removable.is_empty() { self.pauses.between_looks } else { Duration::ZERO };
        self.due = now.running + pause;
    }

    fn fail(&mut self, now: Clocks, random: f64) -> Vec<RotationEffect> {
        self.removable.clear();
        if std::mem::take(&mut self.has_caller) {
            // The caller hears that nothing is published, then or later.
            let new_version = self.version();
            self.rotation = self.replaced.take();
            (self.failures, self.due) = (0, now.running + self.pause_of_phase());
            return vec![match self.rotation {
                Some(restored) => RotationEffect::Save(restored),
                None => RotationEffect::End { new_version },
            }];
        }
        self.due = now.running + FAILURE_BACKOFF.delay(self.failures, random);
        self.failures = self.failures.saturating_add(1);
        Vec::new()
    }

    /// The pause between the end of the phase's step and the next one.
    fn pause_of_phase(&self) -> Duration {
        match self.phase() {
            Some(RotationPhase::Requested | RotationPhase::Replaced) => Duration::ZERO,
            Some(RotationPhase::Retired) if self.rotation.is_some_and(|rotation| has_to_reissue(&rotation)) => {
                Duration::ZERO
            }
            Some(_) => self.pauses.between_steps,
            None if self.has_retired => self.pauses.between_steps,
            None => Duration::ZERO,
        }
    }

    /// The next step; `None` when the rotation has ended.
    fn next_step(&self) -> Option<RotationStep> {
        let look = match &*self.removable {
            [] => RotationStep::CountUses,
            methods => RotationStep::RemoveOld { methods: methods.to_vec() },
        };
        let Some(rotation) = &self.rotation else { return self.has_retired.then_some(look) };
        match rotation.phase {
            RotationPhase::Requested if rotation.is_compromised => Some(RotationStep::ReplaceAll),
            RotationPhase::Requested => Some(RotationStep::AddKeys),
            RotationPhase::Added => Some(RotationStep::ResignPresentations),
            RotationPhase::Resigned => Some(RotationStep::RetireOld),
            RotationPhase::Retired | RotationPhase::Replaced if has_to_reissue(rotation) => {
                Some(RotationStep::ReissueOwn)
            }
            RotationPhase::Retired | RotationPhase::Replaced | RotationPhase::Reissued => {
                self.has_retired.then_some(look)
            }
        }
    }

    fn advance(&mut self, now: Clocks) -> Vec<RotationEffect> {
        if self.running.is_some() {
            return Vec::new();
        }
        let Some(step) = self.next_step() else {
            let ended = self.rotation.take().map(|ended| RotationEffect::End { new_version: ended.new_version });
            return ended.into_iter().collect();
        };
        if self.due > now.running {
            return vec![RotationEffect::Wake(self.due - now.running)];
        }
        self.running = Some(step.clone());
        vec![RotationEffect::Run { new_version: self.version(), step }]
    }
}

/// Whether own credentials have to be proven by the new pair and are not yet. A compromised key proves none of them any more.
fn has_to_reissue(rotation: &StoredRotation) -> bool {
    rotation.phase != RotationPhase::Reissued && (rotation.reissue || rotation.is_compromised)
}

/// The state of a rotation whose pair is not in the document: the store was recovered with another log than that of the phase.
fn without_new_pair(stored: StoredRotation) -> StoredRotation {
    match stored.phase {
        RotationPhase::Requested | RotationPhase::Added | RotationPhase::Resigned => {
            StoredRotation { phase: RotationPhase::Requested, ..stored }
        }
        // A pair that was in use and is gone has nothing left to do.
        RotationPhase::Retired | RotationPhase::Reissued | RotationPhase::Replaced => {
            StoredRotation { phase: RotationPhase::Retired, reissue: false, is_compromised: false, ..stored }
        }
    }
}
