//! The vocabulary that the modules of controllers share.

pub(crate) use std::{sync::Arc, time::Duration};

pub(crate) use kubegc_core::{
    Behavior, DeleteOptions, KubernetesVersion, ObjectMeta, OwnerReference, PatchType, SharedMeta,
    StoreError, Timestamp, Uid,
    record::{Condition, Field, ObjectId, Pod, Record, Resource},
};

pub(crate) use crate::{
    Action, Cache, Change, Context, Controller, Deadlines, Decision, End, EventRequest, FieldChange, Form,
    Index, Info, Key, MayChange, Missing, OnError, Operation, Port, Read, Reason, Rule, Sent, Steps, Timing,
    Wire, Write,
    controller::{Reads as _, read_as, require_version, whole},
    rule::RuleContext,
    storage::namespace_key,
};
