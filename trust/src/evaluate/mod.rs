//! The evaluation: from documents, credentials and the registry's word to a verdict.

mod authority;
mod credential;
#[cfg(test)]
mod tests;

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeSet, HashMap},
};

use serde_json::Value;

use crate::{
    Code, EssentialSchemas, Known, Need, Pattern, Reason, Verdict,
    credential::Presentation,
    document::{self, Linked, Purpose},
    known::{Gaze, Stop},
    proof::{self, Proof},
    verdict::{Held, Shown},
};

/// What an evaluation goes by.
#[derive(Debug, Clone)]
pub struct Rules {
    /// `vpr:<word>:<chain id>:cs:`, which references to schemas of this registry begin with.
    pub schema_prefix: String,
    /// Which schemas are essential.
    pub essential: EssentialSchemas,
    /// DIDs of the ecosystems whose essential schemas are relied on; any when empty.
    pub ecosystems: BTreeSet<String>,
    /// Time of the evaluated block, nanoseconds since the epoch.
    pub now: i128,
}

/// Presentations of one DID that are looked at.
const MOST_PRESENTATIONS: usize = 16;
/// Services that may vouch for each other in a row.
const MOST_PARENTS: usize = 4;
/// Services that are asked whether they may vouch, on all ways together: everybody may name everybody.
const MOST_QUESTIONS: usize = 64;
/// Credentials that are looked at, of all services together.
const MOST_CREDENTIALS: usize = 256;
/// Reasons that a verdict gives.
const MOST_REASONS: usize = 128;

/// Judges a DID, or says what has to be found out before it can be judged.
pub fn evaluate(did: &str, known: &Known, rules: &Rules) -> Result<Verdict, BTreeSet<Need>> {
    let gaze = Gaze::new(known);
    let evaluation = Evaluation {
        gaze: &gaze,
        rules,
        consulted: RefCell::default(),
        presented: RefCell::default(),
        questions: Cell::default(),
        credentials: Cell::default(),
    };
    let mut judged = evaluation.judge(did, &mut Vec::new());
    if let Some(left_out) = judged.reasons.len().checked_sub(MOST_REASONS).filter(|more| *more > 0) {
        judged.reasons.truncate(MOST_REASONS);
        judged.reasons.push(Reason::new(Code::TooLarge, format!("{left_out} further reasons")));
    }
    let consulted = evaluation.consulted.into_inner();
    let inputs = gaze.finish()?;
    Ok(Verdict { inputs: inputs.into_iter().collect(), consulted, ..judged })
}

/// One evaluation under way.
struct Evaluation<'a> {
    gaze: &'a Gaze<'a>,
    rules: &'a Rules,
    consulted: RefCell<BTreeSet<String>>,
    /// What each DID presents. That does not depend on who asks.
    presented: RefCell<HashMap<String, Verdict>>,
    questions: Cell<usize>,
    credentials: Cell<usize>,
}

/// What a presentation came to.
struct Examined {
    shown: Shown,
    held: Vec<Held>,
    reasons: Vec<Reason>,
}

impl Evaluation<'_> {
    /// Judges a DID. What is not known yet is noted by the gaze, and the verdict then is of no use.
    fn judge(&self, did: &str, path: &mut Vec<String>) -> Verdict {
        let presented = self.presented.borrow().get(did).cloned();
        let mut verdict = presented.unwrap_or_else(|| {
            let presented = self.presented_by(did);
            self.presented.borrow_mut().insert(did.to_owned(), presented.clone());
            presented
        });
        if self.gaze.document(did).is_ok() {
            path.push(did.to_owned());
            self.conclude(did, &mut verdict, path);
            path.pop();
        }
        verdict
    }

    /// What a DID presents, without what follows from it.
    fn presented_by(&self, did: &str) -> Verdict {
        let mut verdict = Verdict {
            pattern: None,
            expires_at: None,
            reasons: Vec::new(),
            credentials: Vec::new(),
            presentations: Vec::new(),
            services: Vec::new(),
            parents: Vec::new(),
            consulted: BTreeSet::new(),
            inputs: Vec::new(),
        };
        let document = match self.gaze.document(did) {
            Ok(document) => document,
            Err(stop) => {
                verdict.reasons.extend(reason_of(stop));
                return verdict;
            }
        };
        verdict.services = document::services(document);
        let linked = document::linked_presentations(document);
        if linked.is_empty() {
            verdict.reasons.push(Code::NoPresentation.into());
        }
        if linked.len() > MOST_PRESENTATIONS {
            let count = format!("{} presentations; the first {MOST_PRESENTATIONS} count", linked.len());
            verdict.reasons.push(Reason::new(Code::TooLarge, count));
        }
        for linked in linked.iter().take(MOST_PRESENTATIONS) {
            let examined = self.examine(did, document, linked);
            verdict.presentations.push(examined.shown);
            verdict.credentials.extend(examined.held);
            verdict.reasons.extend(examined.reasons);
        }
        verdict
    }

    /// Whether what is held makes the DID trusted.
    fn conclude(&self, did: &str, verdict: &mut Verdict, path: &mut Vec<String>) {
        let held = verdict.credentials.clone();
        let of = |wanted: fn(crate::Essential) -> bool| {
            held.iter().filter(move |held| held.essential.as_ref().is_some_and(|(essential, _)| wanted(*essential)))
        };
        let mut services = of(|essential| essential == crate::Essential::Service).peekable();
        if services.peek().is_none() {
            verdict.reasons.push(Code::NoServiceCredential.into());
        }
        for service in services {
            let found = if service.issuer == did {
                let operator = of(crate::Essential::names_operator).max_by_key(|operator| operator.issued_at);
                operator
                    .map(|operator| (Pattern::Own, operator.expires_at(), Vec::new()))
                    .ok_or_else(|| vec![Code::NoOperatorCredential.into()])
            } else {
                self.vouched_for(&service.issuer, path)
            };
            match found {
                Ok((pattern, expires_at, parents)) => {
                    verdict.pattern = Some(pattern);
                    verdict.expires_at = service.expires_at().into_iter().chain(expires_at).min();
                    verdict.parents = parents;
                    return;
                }
                Err(reasons) => verdict.reasons.extend(reasons),
            }
        }
    }

    /// Whether the service that issued a service credential is trusted itself.
    fn vouched_for(
        &self,
        parent: &str,
        path: &mut Vec<String>,
    ) -> Result<(Pattern, Option<i128>, Vec<String>), Vec<Reason>> {
        let about = |code: Code| Reason { did: Some(parent.to_owned()), ..Reason::new(code, parent) };
        if path.iter().any(|known| known == parent) {
            return Err(vec![about(Code::Cycle)]);
        }
        if path.len() > MOST_PARENTS {
            return Err(vec![about(Code::TooDeep)]);
        }
        if spent(&self.questions) > MOST_QUESTIONS {
            let count = format!("more than {MOST_QUESTIONS} services to ask");
            return Err(vec![Reason { did: Some(parent.to_owned()), ..Reason::new(Code::TooLarge, count) }]);
        }
        self.consulted.borrow_mut().insert(parent.to_owned());
        let judged = self.judge(parent, path);
        if judged.is_trusted() {
            let parents = std::iter::once(parent.to_owned()).chain(judged.parents).collect();
            return Ok((Pattern::Parent, judged.expires_at, parents));
        }
        let theirs = judged
            .reasons
            .into_iter()
            .map(|reason| Reason { did: reason.did.or_else(|| Some(parent.to_owned())), ..reason });
        Err(std::iter::once(about(Code::ParentNotTrusted)).chain(theirs).collect())
    }

    fn examine(&self, did: &str, document: &Value, linked: &Linked) -> Examined {
        let shown = Shown {
            id: linked.url.clone(),
            service: linked.service.clone(),
            credentials: Vec::new(),
            unresolvable: Vec::new(),
            invalid: Vec::new(),
        };
        let mut examined = Examined { shown, held: Vec::new(), reasons: Vec::new() };
        if let Err(stop) = self.present(did, document, linked, &mut examined) {
            examined.reasons.extend(reason_of(stop).map(|reason| at(reason, linked, None)));
        }
        examined
    }

    fn present(&self, did: &str, document: &Value, linked: &Linked, examined: &mut Examined) -> Result<(), Stop> {
        let text = self.gaze.resource(&linked.url)?;
        let body: Value = serde_json::from_str(text).map_err(|error| Reason::new(Code::PresentationInvalid, error))?;
        let presentation = Presentation::read(&body)?;
        if let Some(id) = presentation.id {
            id.clone_into(&mut examined.shown.id);
        }
        if let Some(holder) = presentation.holder.filter(|holder| *holder != did) {
            return Err(Reason::new(Code::HolderDiffers, format!("{holder:?}")).into());
        }
        self.check_proof(&body, did, document, &[Purpose::Authentication, Purpose::AssertionMethod])?;
        for (index, credential) in presentation.credentials.iter().enumerate() {
            let id = credential["id"].as_str().map_or_else(|| format!("{}#{index}", linked.url), str::to_owned);
            let held = match spent(&self.credentials) {
                1..=MOST_CREDENTIALS => self.hold(did, &id, credential),
                _ => {
                    Err(Reason::new(Code::TooLarge, format!("more than {MOST_CREDENTIALS} credentials to look at"))
                        .into())
                }
            };
            match held {
                Ok(held) => {
                    examined.shown.credentials.push(id);
                    examined.held.push(held);
                }
                Err(stop) => {
                    let Some(reason) = reason_of(stop) else { continue };
                    let list = if reason.is_unresolvable() {
                        &mut examined.shown.unresolvable
                    } else {
                        &mut examined.shown.invalid
                    };
                    list.push(id.clone());
                    examined.reasons.push(at(reason, linked, Some(id)));
                }
            }
        }
        Ok(())
    }

    /// Checks that one proof of a document was made by its author, with a key the author's document allows for the purpose.
    fn check_proof(&self, body: &Value, author: &str, document: &Value, allowed: &[Purpose]) -> Result<(), Reason> {
        let check = |proof: &Result<Proof, Reason>| {
            let proof = proof.as_ref().map_err(Clone::clone)?;
            if proof.signer() != author {
                return Err(Reason::new(Code::WrongSigner, format!("{} signed for {author}", proof.signer())));
            }
            if !allowed.contains(&proof.purpose) {
                let purpose = format!("the proof's purpose is {:?}", proof.purpose.as_str());
                return Err(Reason::new(Code::KeyNotForPurpose, purpose));
            }
            let method = document::absolute(author, &proof.method);
            let key = document::key(document, &method, proof.purpose, self.rules.now)
                .map_err(|code| Reason::new(code, &method))?;
            let (text, document) = (proof.text(), body.to_string());
            self.gaze.once(&[b"proof", key.as_bytes(), text.as_bytes(), document.as_bytes()], || {
                proof.verify(body, &key, self.rules.now)
            })
        };
        let mut first = None;
        for proof in &proof::proofs(body)? {
            match check(proof) {
                Ok(()) => return Ok(()),
                Err(reason) => first = first.or(Some(reason)),
            }
        }
        Err(first.unwrap_or_else(|| Code::ProofMissing.into()))
    }
}

/// Counts one more.
fn spent(count: &Cell<usize>) -> usize {
    count.set(count.get() + 1);
    count.get()
}

fn reason_of(stop: Stop) -> Option<Reason> {
    match stop {
        Stop::Unknown => None,
        Stop::Because(reason) => Some(reason),
    }
}

fn at(reason: Reason, linked: &Linked, credential: Option<String>) -> Reason {
    Reason { presentation: Some(linked.url.clone()), credential, ..reason }
}
