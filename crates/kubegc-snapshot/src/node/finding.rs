//! Findings: irregularities in a node's documents that did not stop the reading, and the effect of each.

use derive_more::Display;

use crate::{
    Place,
    finding::{Finding, Findings},
};

/// The category of a [`NodeFinding`].
///
/// The first group makes the listing or the policy concerned unknown; the second only informs.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Display)]
pub enum NodeProblem {
    /// A document was not read (only with `lenient`): all that it may hold is unknown.
    Unread,
    /// A field has an invalid value.
    BadField,
    /// A field that decides is missing.
    MissingField,
    /// Two entries with one id, two documents of one kind, or two spellings of one setting contradict each
    /// other.
    Contradiction,
    /// Nothing shows that a listing of containers is whole: `crictl ps` without `-a` leaves out the dead
    /// ones.
    MayBePartial,
    /// A list continues, and the rest is missing.
    ListContinues,
    /// A YAML file ends without a line break, so it may be cut off.
    NoFinalLineBreak,
    /// The pods were declared whole and are not: no document lists them, or one of them could not be read.
    /// Unlisted pods stay protected.
    NotWhole,

    /// An entry with a flaw counts as running or ready, or was left out, so that nothing is done to it (only
    /// with `lenient`).
    Held,
    /// The same entry or document occurs twice with equal contents: merged.
    Repeated,
    /// Configuration or flags differ from `/configz`, which is the kubelet's running configuration.
    Superseded,
    /// An unrecognised state. It counts as unknown (containers) or ready (sandboxes).
    UnknownState,
    /// A value that a node cannot really have: created at the epoch or in the future, a size beyond 63 bits,
    /// more free than there is, no capacity. It is used as reported.
    Implausible,
    /// A container or sandbox without its name or its pod; for upstream it belongs to no pod.
    Nameless,
    /// Something of a pod runs, and the pods that were declared complete do not have it: it counts as living.
    PodNotListed,
    /// No listed image has the name of the configured sandbox image.
    UnresolvedSandboxImage,
    /// A document that is none of a node's (in directories and archives, elsewhere only with `lenient`):
    /// skipped.
    NotRecognized,
    /// A file in a directory that is not a document by its name: skipped.
    SkippedFile,
}

/// One oddity of a node's documents. Its object is a container, sandbox, image, pod or record.
pub type NodeFinding = Finding<NodeProblem, Box<str>>;

pub(crate) type Notes = Findings<NodeProblem, Box<str>>;

impl Notes {
    /// Adds a finding about all that is at a place.
    pub(crate) fn at(&mut self, problem: NodeProblem, place: &Place, detail: &str) {
        self.note(problem, Some(place), "", "", detail);
    }

    pub(crate) fn note(
        &mut self,
        problem: NodeProblem,
        place: Option<&Place>,
        object: &str,
        field: &str,
        detail: &str,
    ) {
        self.add(problem, || Finding {
            object: (!object.is_empty()).then(|| object.into()),
            field: field.into(),
            ..Finding::new(problem, place.cloned(), detail)
        });
    }
}
