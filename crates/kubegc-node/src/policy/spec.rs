//! The settings of a kubelet's configuration and flags, not validated: one table.

use std::collections::BTreeMap;

use crate::GoDuration;

/// The names of a setting of a kubelet.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Field of `KubeletConfiguration`.
    pub field: Option<&'static str>,
    /// Flag, without dashes.
    pub flag: Option<&'static str>,
    /// The field or, if there is none, the flag. A map has a placeholder: `evictionHard.<signal>`.
    pub name: &'static str,
}

/// The place of a setting's value in [`PolicyChanges`]; `None` if it is not set.
#[derive(Debug)]
pub enum Slot<'s> {
    /// A whole number of 32 bits.
    Whole(&'s mut Option<i32>),
    Duration(&'s mut Option<GoDuration>),
    Text(&'s mut Option<String>),
    /// Feature gates by name.
    Gates(&'s mut Option<BTreeMap<String, bool>>),
    /// Thresholds by signal; a flag writes them as `signal<amount`.
    Thresholds(&'s mut Option<BTreeMap<String, String>>),
    /// Amounts by signal; a flag writes them as `signal=amount`.
    Amounts(&'s mut Option<BTreeMap<String, String>>),
    Durations(&'s mut Option<BTreeMap<String, GoDuration>>),
}

/// A type of settings.
trait SettingType: Clone {
    /// Sets a value; `merge` keeps the entries of a map that this one does not have.
    fn set(&self, to: &mut Self, _merge: bool) {
        to.clone_from(self);
    }
}

impl SettingType for i32 {}
impl SettingType for GoDuration {}
impl SettingType for String {}

impl<T: Clone> SettingType for BTreeMap<String, T> {
    fn set(&self, to: &mut Self, merge: bool) {
        if !merge {
            to.clear();
        }
        to.extend(self.clone());
    }
}

macro_rules! optional {
    () => {
        None
    };
    ($text:literal) => {
        Some($text)
    };
}

macro_rules! name {
    ([] [$flag:literal]) => {
        $flag
    };
    ([$($field:tt)+] [$($flag:literal)?]) => {
        concat!($($field)+)
    };
}

/// Declares the settings: name and type here, default, field with the name of a map's keys, and flag.
macro_rules! settings {
    ($(
        $(#[doc = $doc:literal])*
        $name:ident: $slot:ident($type:ty) = $default:expr
            $(, field $field:literal $([$key:literal])?)? $(, flag $flag:literal)?;
    )*) => {
        /// The settings of a kubelet that affect garbage collection, not validated.
        /// [`Policy::new`](super::Policy::new) validates them.
        ///
        /// `Default` is upstream's.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct PolicySpec {
            $(
                $(#[doc = $doc])*
                $(#[doc = concat!(" Field `", $field, "`.")])?
                $(#[doc = concat!(" Flag `--", $flag, "`.")])?
                pub $name: $type,
            )*
        }

        impl Default for PolicySpec {
            fn default() -> Self {
                Self { $($name: $default,)* }
            }
        }

        impl PolicySpec {
            /// The settings that differ from their defaults.
            pub(super) fn changed(&self) -> impl Iterator<Item = Setting> {
                let default = Self::default();
                let changed = [$(self.$name != default.$name),*];
                Setting::ALL.iter().copied().zip(changed).filter_map(|(setting, is)| is.then_some(setting))
            }
        }

        impl Setting {
            /// All settings, in the order of the fields of [`PolicySpec`].
            pub const ALL: &'static [Self] = &[$(
                Self {
                    field: optional!($($field)?),
                    flag: optional!($($flag)?),
                    name: name!([$($field $(, ".<", $key, ">")?)?] [$($flag)?]),
                },
            )*];
        }

        /// The settings that one source sets: a configuration file, flags, or a user.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct PolicyChanges {
            $($name: Option<$type>,)*
        }

        impl PolicyChanges {
            /// All settings with their values here, in the order of [`Setting::ALL`].
            pub fn slots(&mut self) -> impl Iterator<Item = (Setting, Slot<'_>)> {
                let slots = [$(Slot::$slot(&mut self.$name)),*];
                Setting::ALL.iter().copied().zip(slots)
            }

            /// Sets these settings. A map is replaced as a whole, or with `merge` keeps the entries that
            /// this one does not have.
            pub fn apply(&self, spec: &mut PolicySpec, merge: bool) {
                $(
                    if let Some(value) = &self.$name {
                        value.set(&mut spec.$name, merge);
                    }
                )*
            }
        }
    };
}

settings! {
    /// Usage of the image file system, in percent, from which images are removed to free space. Default 85;
    /// 100 disables the loop (but see [`SwitchReason`](super::SwitchReason)).
    image_gc_high_threshold_percent: Whole(i32) = 85,
        field "imageGCHighThresholdPercent", flag "image-gc-high-threshold";
    /// Usage, in percent, down to which space is freed. Default 80.
    image_gc_low_threshold_percent: Whole(i32) = 80,
        field "imageGCLowThresholdPercent", flag "image-gc-low-threshold";
    /// Time since the first detection of an image for which it is not removed to free space. Default 2
    /// minutes.
    image_minimum_gc_age: Duration(GoDuration) = GoDuration::from_secs(120),
        field "imageMinimumGCAge", flag "minimum-image-ttl-duration";
    /// Time since its last use after which an image is removed; zero: never. Default zero.
    image_maximum_gc_age: Duration(GoDuration) = GoDuration::ZERO, field "imageMaximumGCAge";
    /// Age since creation below which a dead container is kept. Default zero.
    minimum_container_ttl: Duration(GoDuration) = GoDuration::ZERO, flag "minimum-container-ttl-duration";
    /// Dead containers kept for each pod and container name; negative: no limit
    /// ([N1.32](crate::rules#n1-32)). Default 1.
    maximum_dead_containers_per_container: Whole(i32) = 1, flag "maximum-dead-containers-per-container";
    /// Dead containers kept on the node; negative: no limit. Default -1.
    maximum_dead_containers: Whole(i32) = -1, flag "maximum-dead-containers";
    /// The feature gates that are set, by name.
    feature_gates: Gates(BTreeMap<String, bool>) = BTreeMap::new(),
        field "featureGates" ["gate"], flag "feature-gates";
    /// Directory of pod logs. Default `/var/log/pods`.
    pod_logs_directory: Text(String) = "/var/log/pods".to_owned(), field "podLogsDir";
    /// Hard thresholds: pods are evicted without a grace period. For example `nodefs.available` to `10%`.
    eviction_hard: Thresholds(BTreeMap<String, String>) = eviction_hard(),
        field "evictionHard" ["signal"], flag "eviction-hard";
    /// Soft thresholds: pods are evicted after a grace period.
    eviction_soft: Thresholds(BTreeMap<String, String>) = BTreeMap::new(),
        field "evictionSoft" ["signal"], flag "eviction-soft";
    /// The grace periods of [`eviction_soft`](Self::eviction_soft).
    eviction_soft_grace_period: Durations(BTreeMap<String, GoDuration>) = BTreeMap::new(),
        field "evictionSoftGracePeriod" ["signal"], flag "eviction-soft-grace-period";
    /// The amount beyond a threshold that must be reclaimed.
    eviction_minimum_reclaim: Amounts(BTreeMap<String, String>) = BTreeMap::new(),
        field "evictionMinimumReclaim" ["signal"], flag "eviction-minimum-reclaim";
}

/// The default hard thresholds.
fn eviction_hard() -> BTreeMap<String, String> {
    let hard = [
        ("memory.available", "100Mi"),
        ("nodefs.available", "10%"),
        ("nodefs.inodesFree", "5%"),
        ("imagefs.available", "15%"),
        ("imagefs.inodesFree", "5%"),
    ];
    let hard = hard.into_iter();
    hard.map(|(signal, value)| (signal.to_owned(), value.to_owned()))
        .collect()
}
