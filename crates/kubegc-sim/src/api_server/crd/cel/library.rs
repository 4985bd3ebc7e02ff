//! The functions that Kubernetes adds to CEL: lists, sets, regular expressions, quantities, IP addresses,
//! networks and semantic versions. URLs and named formats have modules of their own.
//!
//! # Upstream
//! `apiserver/pkg/cel/library/{lists,regex,quantity,ip,cidr}.go`, 1.31.0; `semverlib.go`, 1.34.0; `sets.go`
//! in `cel-go/ext`.

use std::{any::Any, cmp::Ordering, net::IpAddr};

use cel::{
    DeclarationError, Env, ExecutionError,
    common::{
        traits::Iterable,
        types::{
            CelBool, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelOptional, CelString, DYN_TYPE,
            INT_TYPE, LIST_TYPE, MAP_TYPE, STRING_TYPE, Type,
        },
        value::{CowVal, StaticVal, Val},
    },
};
use kubegc_core::Quantity;
use regex::Regex;
use semver::Version;

use super::{
    addresses, formats,
    macros::{ENTRIES, INSERT},
    nodes::{OTHER_ITEMS, SAME_ITEMS},
    urls,
};
use crate::status::quoted;

type Args<'b, 'v> = Vec<CowVal<'b, 'v>>;
type Outcome<'b, 'v> = Result<CowVal<'b, 'v>, ExecutionError>;

/// Declares the functions.
///
/// # Errors
/// A function of this name is already declared.
pub(super) fn declare(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_extension(cel::extensions::strings)?;
    env.add_extension(cel::extensions::lists)?;
    urls::declare(env)?;
    formats::declare(env)?;
    let mut on_list = |name: &str, more: Vec<Type>, function| {
        env.add_member_overload(name, &format!("list_{name}"), LIST_TYPE, more, function)
    };
    on_list("isSorted", vec![], is_sorted)?;
    on_list("sum", vec![], sum)?;
    on_list("min", vec![], least)?;
    on_list("max", vec![], greatest)?;
    on_list("indexOf", vec![DYN_TYPE], first_index)?;
    on_list("lastIndexOf", vec![DYN_TYPE], last_index)?;
    on_list("first", vec![], first)?;
    on_list("last", vec![], last)?;
    on_list("unwrapOpt", vec![], present)?;
    let mut on_lists =
        |name: &str, function| env.add_overload(name, name, vec![LIST_TYPE, LIST_TYPE], function);
    on_lists("sets.contains", contains_all)?;
    on_lists("sets.equivalent", are_equivalent)?;
    on_lists("sets.intersects", intersect)?;
    cel::add_member_overload!(env, fn find: (CelString, CelString) -> Result<CelString>)?;
    for (id, more) in [("string_findAll", vec![]), ("string_findAll_int", vec![INT_TYPE])] {
        let arguments = std::iter::once(STRING_TYPE).chain(more).collect();
        env.add_member_overload("findAll", id, STRING_TYPE, arguments, find_all)?;
    }
    env.add_overload("optional.unwrap", "optional_unwrap", vec![LIST_TYPE], present)?;
    env.add_overload(
        SAME_ITEMS,
        SAME_ITEMS,
        vec![LIST_TYPE, LIST_TYPE],
        have_same_items,
    )?;
    env.add_overload(
        OTHER_ITEMS,
        OTHER_ITEMS,
        vec![LIST_TYPE, LIST_TYPE],
        have_other_items,
    )?;
    env.add_overload(ENTRIES, "entries_list", vec![LIST_TYPE], entries)?;
    env.add_overload(ENTRIES, "entries_map", vec![MAP_TYPE], entries)?;
    env.add_overload(INSERT, "insert_value", vec![MAP_TYPE, DYN_TYPE, DYN_TYPE], insert)?;
    env.add_overload(INSERT, "insert_map", vec![MAP_TYPE, MAP_TYPE], insert)?;

    cel::add_overload!(env, fn is_quantity: (CelString) -> CelBool)?;
    cel::add_overload!(env, fn quantity: (CelString) -> Result<Amount>)?;
    cel::add_overload!(env, fn sign: (Amount) -> CelInt)?;
    cel::add_member_overload!(env, fn is_integer: (Amount) -> CelBool)?;
    cel::add_member_overload!(env, fn as_integer: (Amount) -> Result<CelInt>)?;
    cel::add_member_overload!(env, fn as_approximate_float: (Amount) -> CelDouble)?;
    cel::add_member_overload!(env, fn add: (Amount, Amount) -> Amount)?;
    cel::add_member_overload!(env, fn add_int: (Amount, CelInt) -> Amount, name = "add")?;
    cel::add_member_overload!(env, fn sub: (Amount, Amount) -> Amount)?;
    cel::add_member_overload!(env, fn sub_int: (Amount, CelInt) -> Amount, name = "sub")?;
    cel::add_member_overload!(env, fn is_less_than: (Amount, Amount) -> CelBool)?;
    cel::add_member_overload!(env, fn is_greater_than: (Amount, Amount) -> CelBool)?;
    cel::add_member_overload!(env, fn compare_to: (Amount, Amount) -> CelInt)?;

    cel::add_overload!(env, fn is_ip: (CelString) -> CelBool, name = "isIP")?;
    cel::add_overload!(env, fn is_canonical: (CelString) -> Result<CelBool>, name = "ip.isCanonical")?;
    cel::add_overload!(env, fn ip: (CelString) -> Result<Address>)?;
    cel::add_member_overload!(env, fn family: (Address) -> CelInt)?;
    cel::add_member_overload!(env, fn is_unspecified: (Address) -> CelBool)?;
    cel::add_member_overload!(env, fn is_loopback: (Address) -> CelBool)?;
    cel::add_member_overload!(env, fn is_link_local_unicast: (Address) -> CelBool)?;
    cel::add_member_overload!(env, fn is_link_local_multicast: (Address) -> CelBool)?;
    cel::add_member_overload!(env, fn is_global_unicast: (Address) -> CelBool)?;
    cel::add_overload!(env, fn address_text: (Address) -> CelString, name = "string")?;

    cel::add_overload!(env, fn is_semver: (CelString) -> CelBool)?;
    cel::add_overload!(env, fn is_semver_normalized: (CelString, CelBool) -> CelBool, name = "isSemver")?;
    cel::add_overload!(env, fn semver: (CelString) -> Result<Release>)?;
    cel::add_overload!(env, fn semver_normalized: (CelString, CelBool) -> Result<Release>, name = "semver")?;
    cel::add_member_overload!(env, fn major: (Release) -> CelInt)?;
    cel::add_member_overload!(env, fn minor: (Release) -> CelInt)?;
    cel::add_member_overload!(env, fn patch: (Release) -> CelInt)?;
    cel::add_member_overload!(env, fn is_older: (Release, Release) -> CelBool, name = "isLessThan")?;
    cel::add_member_overload!(env, fn is_newer: (Release, Release) -> CelBool, name = "isGreaterThan")?;
    cel::add_member_overload!(env, fn compare_releases: (Release, Release) -> CelInt, name = "compareTo")?;

    cel::add_overload!(env, fn is_cidr: (CelString) -> CelBool, name = "isCIDR")?;
    cel::add_overload!(env, fn cidr: (CelString) -> Result<Network>)?;
    cel::add_member_overload!(env, fn contains_ip: (Network, Address) -> CelBool, name = "containsIP")?;
    cel::add_member_overload!(env, fn contains_ip_text: (Network, CelString) -> Result<CelBool>, name = "containsIP")?;
    cel::add_member_overload!(env, fn contains_cidr: (Network, Network) -> CelBool, name = "containsCIDR")?;
    cel::add_member_overload!(env, fn contains_cidr_text: (Network, CelString) -> Result<CelBool>, name = "containsCIDR")?;
    cel::add_member_overload!(env, fn network_ip: (Network) -> Address, name = "ip")?;
    cel::add_member_overload!(env, fn masked: (Network) -> Network)?;
    cel::add_member_overload!(env, fn prefix_length: (Network) -> CelInt)?;
    cel::add_overload!(env, fn network_text: (Network) -> CelString, name = "string")?;
    Ok(())
}

/// The items of the list that a function was called on.
fn items<'a, 'b, 'v>(args: &'a Args<'b, 'v>) -> Result<Vec<&'a (dyn Val + 'v)>, ExecutionError> {
    items_of(args, 0)
}

/// The items of the list at a position of the arguments.
fn items_of<'a, 'b, 'v>(
    args: &'a Args<'b, 'v>,
    position: usize,
) -> Result<Vec<&'a (dyn Val + 'v)>, ExecutionError> {
    let list = args.get(position).and_then(|list| list.as_iterable());
    let list: &(dyn Iterable + 'v) = list.ok_or_else(|| ExecutionError::invalid_argument_count(1, 0))?;
    let (mut items, mut all) = (list.iter(), Vec::new());
    while let Some(item) = items.next() {
        all.push(item);
    }
    Ok(all)
}

fn compare(one: &dyn Val, other: &dyn Val) -> Result<Ordering, ExecutionError> {
    let comparer = one.as_comparer();
    let comparer = comparer.ok_or_else(|| ExecutionError::function_error("compare", "no such overload"))?;
    comparer.compare(other)
}

fn is_sorted<'b, 'v>(args: Args<'b, 'v>) -> Outcome<'b, 'v> {
    let items = items(&args)?;
    for pair in items.windows(2) {
        if let [one, next] = pair
            && compare(*one, *next)? == Ordering::Greater
        {
            return Ok(CowVal::owned(CelBool::from(false)));
        }
    }
    Ok(CowVal::owned(CelBool::from(true)))
}

fn sum<'b, 'v>(args: Args<'b, 'v>) -> Outcome<'b, 'v> {
    let items = items(&args)?;
    let mut total: Option<CowVal<'b, 'v>> = None;
    for item in items {
        total = Some(match &total {
            None => CowVal::Owned(item.clone_as_boxed()),
            Some(total) => {
                let adder = total.as_adder();
                let adder = adder.ok_or_else(|| ExecutionError::function_error("sum", "no such overload"))?;
                CowVal::Owned(adder.add(item)?.into_owned())
            }
        });
    }
    Ok(total.unwrap_or_else(|| CowVal::owned(CelInt::from(0))))
}

fn extreme<'b, 'v>(args: &Args<'b, 'v>, name: &str, wanted: Ordering) -> Outcome<'b, 'v> {
    let mut best: Option<&(dyn Val + 'v)> = None;
    for item in items(args)? {
        let better = match best {
            None => true,
            Some(best) => compare(item, best)? == wanted,
        };
        if better {
            best = Some(item);
        }
    }
    let best =
        best.ok_or_else(|| ExecutionError::function_error(name, format!("{name} called on empty list")))?;
    Ok(CowVal::Owned(best.clone_as_boxed()))
}

fn least<'b, 'v>(args: Args<'b, 'v>) -> Outcome<'b, 'v> {
    extreme(&args, "min", Ordering::Less)
}

fn greatest<'b, 'v>(args: Args<'b, 'v>) -> Outcome<'b, 'v> {
    extreme(&args, "max", Ordering::Greater)
}

fn index<'b, 'v>(args: &Args<'b, 'v>, last: bool) -> Outcome<'b, 'v> {
    let wanted = args
        .get(1)
        .ok_or_else(|| ExecutionError::invalid_argument_count(2, args.len()))?;
    let items = items(args)?;
    let is = |item: &&(dyn Val + 'v)| item.equals(wanted.as_ref());
    let found = if last {
        items.iter().rposition(is)
    } else {
        items.iter().position(is)
    };
    let found = found.and_then(|index| i64::try_from(index).ok()).unwrap_or(-1);
    Ok(CowVal::owned(CelInt::from(found)))
}

fn first_index<'b, 'v>(args: Args<'b, 'v>) -> Outcome<'b, 'v> {
    index(&args, false)
}

fn last_index<'b, 'v>(args: Args<'b, 'v>) -> Outcome<'b, 'v> {
    index(&args, true)
}

fn first<'b, 'v>(args: Args<'b, 'v>) -> Outcome<'b, 'v> {
    Ok(optional(items(&args)?.first()))
}

fn last<'b, 'v>(args: Args<'b, 'v>) -> Outcome<'b, 'v> {
    Ok(optional(items(&args)?.last()))
}

fn optional<'b, 'v>(item: Option<&&(dyn Val + 'v)>) -> CowVal<'b, 'v> {
    CowVal::owned(item.map_or_else(CelOptional::none, |item| CelOptional::of(item.clone_as_boxed())))
}

/// The values of the optionals of a list that have one.
fn present<'b, 'v>(args: Args<'b, 'v>) -> Outcome<'b, 'v> {
    let mut values: Vec<Box<dyn Val + 'v>> = Vec::new();
    for item in items(&args)? {
        let optional = item.downcast_ref::<CelOptional<'_>>();
        let optional =
            optional.ok_or_else(|| ExecutionError::function_error("unwrap", "value is not optional"))?;
        values.extend(optional.inner().map(|value| value.clone_as_boxed()));
    }
    Ok(CowVal::owned(CelList::from(values)))
}

/// Whether one list has all items of the other.
fn has_all(args: &Args<'_, '_>, one: usize, other: usize) -> Result<bool, ExecutionError> {
    let (all, wanted) = (items_of(args, one)?, items_of(args, other)?);
    Ok(wanted
        .iter()
        .all(|item| all.iter().any(|known| known.equals(*item))))
}

fn contains_all<'b, 'v>(args: Args<'b, 'v>) -> Outcome<'b, 'v> {
    Ok(CowVal::owned(CelBool::from(has_all(&args, 0, 1)?)))
}

fn are_equivalent<'b, 'v>(args: Args<'b, 'v>) -> Outcome<'b, 'v> {
    let equivalent = has_all(&args, 0, 1)? && has_all(&args, 1, 0)?;
    Ok(CowVal::owned(CelBool::from(equivalent)))
}

/// Whether two lists without equal items have the same items.
fn has_same_items(args: &Args<'_, '_>) -> Result<bool, ExecutionError> {
    Ok(items_of(args, 0)?.len() == items_of(args, 1)?.len() && has_all(args, 0, 1)?)
}

fn have_same_items<'b, 'v>(args: Args<'b, 'v>) -> Outcome<'b, 'v> {
    Ok(CowVal::owned(CelBool::from(has_same_items(&args)?)))
}

fn have_other_items<'b, 'v>(args: Args<'b, 'v>) -> Outcome<'b, 'v> {
    Ok(CowVal::owned(CelBool::from(!has_same_items(&args)?)))
}

fn intersect<'b, 'v>(args: Args<'b, 'v>) -> Outcome<'b, 'v> {
    let (one, other) = (items_of(&args, 0)?, items_of(&args, 1)?);
    let intersects = one
        .iter()
        .any(|item| other.iter().any(|known| known.equals(*item)));
    Ok(CowVal::owned(CelBool::from(intersects)))
}

fn regex(pattern: &str) -> Result<Regex, ExecutionError> {
    Regex::new(pattern)
        .map_err(|_| ExecutionError::function_error("find", format!("Illegal regex: {pattern}")))
}

fn find(text: &CelString<'_>, pattern: &CelString<'_>) -> Result<CelString<'static>, ExecutionError> {
    let found = regex(pattern.inner())?;
    let found = found.find(text.inner()).map_or("", |found| found.as_str());
    Ok(CelString::from(found.to_owned()))
}

fn find_all<'b, 'v>(args: Args<'b, 'v>) -> Outcome<'b, 'v> {
    let text = |index: usize| {
        let text = args
            .get(index)
            .and_then(|text| text.downcast_ref::<CelString<'_>>());
        text.map(|text| text.inner().to_owned())
            .ok_or_else(|| ExecutionError::invalid_argument_count(2, args.len()))
    };
    let (text, pattern) = (text(0)?, regex(&text(1)?)?);
    let limit = args.get(2).and_then(|limit| limit.downcast_ref::<CelInt>());
    // A negative limit is none.
    let limit = limit.and_then(|limit| usize::try_from(*limit.inner()).ok());
    let found = pattern.find_iter(&text).take(limit.unwrap_or(usize::MAX));
    let found = found.map(|found| {
        let found: Box<dyn Val + 'v> = Box::new(CelString::from(found.as_str().to_owned()));
        found
    });
    Ok(CowVal::owned(CelList::from(found.collect::<Vec<_>>())))
}

/// The entries of a list or map: lists of key and value.
fn entries<'b, 'v>(args: Args<'b, 'v>) -> Outcome<'b, 'v> {
    let mut entries: Vec<Box<dyn Val + 'v>> = Vec::new();
    let mut push = |key: Box<dyn Val + 'v>, value: Box<dyn Val + 'v>| {
        entries.push(Box::new(CelList::from(vec![key, value])));
    };
    let map = args.first().and_then(|range| range.downcast_ref::<CelMap<'_>>());
    if let Some(map) = map {
        for (key, value) in map.inner() {
            push(key.inner().clone_as_boxed(), value.clone_as_boxed());
        }
    } else {
        for (index, item) in (0_i64..).zip(items(&args)?) {
            push(Box::new(CelInt::from(index)), item.clone_as_boxed());
        }
    }
    Ok(CowVal::owned(CelList::from(entries)))
}

/// A map with an entry, or the entries of a map, more.
fn insert<'b, 'v>(args: Args<'b, 'v>) -> Outcome<'b, 'v> {
    let map = |index: usize| args.get(index).and_then(|map| map.downcast_ref::<CelMap<'_>>());
    let of = map(0).ok_or_else(|| ExecutionError::invalid_argument_count(2, args.len()))?;
    let mut entries = of.clone().into_inner();
    let new: Vec<(CelMapKey<'v>, Box<dyn Val + 'v>)> = match (map(1), args.get(1), args.get(2)) {
        (Some(new), _, None) => new.clone().into_inner().into_iter().collect(),
        (_, Some(key), Some(value)) => {
            vec![(CelMapKey::try_from(key.clone_as_boxed())?, value.clone_as_boxed())]
        }
        _ => Vec::new(),
    };
    for (key, value) in new {
        let shown = shown_key(&key);
        if entries.insert(key, value).is_some() {
            let problem = format!("insert failed: key {shown} already exists");
            return Err(ExecutionError::function_error("insert", problem));
        }
    }
    Ok(CowVal::owned(CelMap::from(entries)))
}

fn shown_key(key: &CelMapKey<'_>) -> String {
    match key {
        CelMapKey::Bool(flag) => flag.inner().to_string(),
        CelMapKey::Int(number) => number.inner().to_string(),
        CelMapKey::String(text) => text.inner().to_owned(),
        CelMapKey::UInt(number) => number.inner().to_string(),
    }
}

/// Makes a type a CEL value that equals others of its type. `Any`, `StaticVal`, `Type` and `Val` are in
/// scope.
macro_rules! value {
    ($type:ty, $name:literal) => {
        impl Val for $type {
            fn get_type(&self) -> &Type {
                <Self as Val>::cel_type()
            }
            fn cel_type() -> &'static Type {
                static TYPE: Type = Type::new_unspecified_type($name);
                &TYPE
            }
            fn equals(&self, other: &dyn Val) -> bool {
                other
                    .downcast_ref::<Self>()
                    .is_some_and(|other| self == other)
            }
            fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v> {
                Box::new(Self::clone(self))
            }
            fn as_any(&self) -> Option<&dyn Any> {
                Some(self)
            }
        }
        impl StaticVal for $type {}
    };
}
pub(super) use value;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Amount(Quantity);
value!(Amount, "kubernetes.Quantity");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Address(IpAddr);
value!(Address, "net.IP");

/// An address and the number of its bits that name a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network(IpAddr, u8);
value!(Network, "net.CIDR");

/// A semantic version.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Release(Version);
value!(Release, "kubernetes.Semver");

fn is_quantity(text: &CelString<'_>) -> CelBool {
    Quantity::parse(text.inner()).is_some().into()
}

fn quantity(text: &CelString<'_>) -> Result<Amount, ExecutionError> {
    let quantity = Quantity::parse(text.inner()).map(Amount);
    quantity.ok_or_else(|| {
        let why =
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
        ExecutionError::function_error("quantity", why)
    })
}

fn sign(amount: &Amount) -> CelInt {
    let sign = if amount.0.is_negative() {
        -1
    } else {
        i64::from(!amount.0.is_zero())
    };
    sign.into()
}

fn is_integer(amount: &Amount) -> CelBool {
    amount.0.as_i64().is_some().into()
}

fn as_integer(amount: &Amount) -> Result<CelInt, ExecutionError> {
    let whole = amount.0.as_i64().map(CelInt::from);
    whole.ok_or_else(|| ExecutionError::function_error("asInteger", "cannot convert value to integer"))
}

fn as_approximate_float(amount: &Amount) -> CelDouble {
    amount.0.as_f64().into()
}

fn add(one: &Amount, other: &Amount) -> Amount {
    Amount(one.0.plus(other.0))
}

fn add_int(one: &Amount, other: &CelInt) -> Amount {
    Amount(one.0.plus(Quantity::decimal_si(*other.inner())))
}

fn sub(one: &Amount, other: &Amount) -> Amount {
    Amount(one.0.plus(other.0.negated()))
}

fn sub_int(one: &Amount, other: &CelInt) -> Amount {
    Amount(one.0.plus(Quantity::decimal_si(*other.inner()).negated()))
}

fn is_less_than(one: &Amount, other: &Amount) -> CelBool {
    (one.0 < other.0).into()
}

fn is_greater_than(one: &Amount, other: &Amount) -> CelBool {
    (one.0 > other.0).into()
}

fn compare_to(one: &Amount, other: &Amount) -> CelInt {
    (one.0.cmp(&other.0) as i64).into()
}

fn parse_release(text: &str) -> Result<Release, ExecutionError> {
    let parsed = Version::parse(text).map(Release);
    parsed.map_err(|error| ExecutionError::function_error("semver", error.to_string()))
}

/// A version without a leading `v`, without leading zeros, and with three numbers.
fn normalized(text: &str) -> String {
    let text = text.strip_prefix('v').unwrap_or(text);
    let end = text.find(['-', '+']).unwrap_or(text.len());
    let (numbers, rest) = text.split_at(end);
    let mut numbers: Vec<&str> = numbers
        .split('.')
        .map(|number| match number.trim_start_matches('0') {
            "" if !number.is_empty() => "0",
            number => number,
        })
        .collect();
    while numbers.len() < 3 {
        numbers.push("0");
    }
    numbers.join(".") + rest
}

fn semver(text: &CelString<'_>) -> Result<Release, ExecutionError> {
    parse_release(text.inner())
}

fn semver_normalized(text: &CelString<'_>, normalize: &CelBool) -> Result<Release, ExecutionError> {
    if *normalize.inner() {
        parse_release(&normalized(text.inner()))
    } else {
        semver(text)
    }
}

fn is_semver(text: &CelString<'_>) -> CelBool {
    semver(text).is_ok().into()
}

fn is_semver_normalized(text: &CelString<'_>, normalize: &CelBool) -> CelBool {
    semver_normalized(text, normalize).is_ok().into()
}

fn whole(number: u64) -> CelInt {
    i64::try_from(number).unwrap_or(i64::MAX).into()
}

fn major(release: &Release) -> CelInt {
    whole(release.0.major)
}

fn minor(release: &Release) -> CelInt {
    whole(release.0.minor)
}

fn patch(release: &Release) -> CelInt {
    whole(release.0.patch)
}

fn is_older(one: &Release, other: &Release) -> CelBool {
    one.0.cmp_precedence(&other.0).is_lt().into()
}

fn is_newer(one: &Release, other: &Release) -> CelBool {
    one.0.cmp_precedence(&other.0).is_gt().into()
}

fn compare_releases(one: &Release, other: &Release) -> CelInt {
    (one.0.cmp_precedence(&other.0) as i64).into()
}

/// An address without zone, and not an IPv4 address written as IPv6.
fn parse_ip(text: &str) -> Result<IpAddr, ExecutionError> {
    let shown = quoted(text);
    let problem = match addresses::parse(text) {
        Ok((_, zone)) if !zone.is_empty() => format!("IP address {shown} with zone value is not allowed"),
        Ok((address, _)) if is_mapped(address) => {
            format!("IPv4-mapped IPv6 address {shown} is not allowed")
        }
        Ok((address, _)) => return Ok(address),
        Err(problem) => format!("IP Address {shown} parse error during conversion from string: {problem}"),
    };
    Err(ExecutionError::function_error("ip", problem))
}

const fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

fn is_ip(text: &CelString<'_>) -> CelBool {
    parse_ip(text.inner()).is_ok().into()
}

fn ip(text: &CelString<'_>) -> Result<Address, ExecutionError> {
    parse_ip(text.inner()).map(Address)
}

fn is_canonical(text: &CelString<'_>) -> Result<CelBool, ExecutionError> {
    Ok((parse_ip(text.inner())?.to_string() == *text.inner()).into())
}

fn family(address: &Address) -> CelInt {
    if address.0.is_ipv4() { 4.into() } else { 6.into() }
}

fn is_unspecified(address: &Address) -> CelBool {
    address.0.is_unspecified().into()
}

fn is_loopback(address: &Address) -> CelBool {
    address.0.is_loopback().into()
}

fn is_link_local(address: &Address) -> bool {
    match address.0 {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

fn is_link_local_unicast(address: &Address) -> CelBool {
    is_link_local(address).into()
}

fn is_link_local_multicast(address: &Address) -> CelBool {
    match address.0 {
        IpAddr::V4(address) => address.octets().starts_with(&[224, 0, 0]),
        IpAddr::V6(address) => matches!(address.octets(), [0xff, scope, ..] if scope & 0x0f == 2),
    }
    .into()
}

fn is_global_unicast(address: &Address) -> CelBool {
    let broadcast = matches!(address.0, IpAddr::V4(address) if address.is_broadcast());
    let other = address.0.is_unspecified() || address.0.is_loopback() || address.0.is_multicast();
    (!broadcast && !other && !is_link_local(address)).into()
}

fn address_text(address: &Address) -> CelString<'static> {
    CelString::from(address.0.to_string())
}

impl Network {
    fn parse(text: &str) -> Result<Self, ExecutionError> {
        let problem = match addresses::parse_prefix(text) {
            Ok((address, _)) if is_mapped(address) => {
                format!("IPv4-mapped IPv6 address {} is not allowed", quoted(text))
            }
            Ok((address, length)) => return Ok(Self(address, length)),
            Err(problem) => format!("network address parse error during conversion from string: {problem}"),
        };
        Err(ExecutionError::function_error("cidr", problem))
    }

    /// The address with the bits of hosts unset.
    fn start(self) -> IpAddr {
        match self.0 {
            IpAddr::V4(address) => {
                let host = u32::MAX.checked_shr(self.1.into()).unwrap_or(0);
                IpAddr::V4((address.to_bits() & !host).into())
            }
            IpAddr::V6(address) => {
                let host = u128::MAX.checked_shr(self.1.into()).unwrap_or(0);
                IpAddr::V6((address.to_bits() & !host).into())
            }
        }
    }

    fn contains(self, address: IpAddr) -> bool {
        self.0.is_ipv4() == address.is_ipv4() && Self(address, self.1).start() == self.start()
    }

    fn contains_network(self, other: Self) -> bool {
        self.1 <= other.1 && self.contains(other.0)
    }
}

fn is_cidr(text: &CelString<'_>) -> CelBool {
    Network::parse(text.inner()).is_ok().into()
}

fn cidr(text: &CelString<'_>) -> Result<Network, ExecutionError> {
    Network::parse(text.inner())
}

fn contains_ip(network: &Network, address: &Address) -> CelBool {
    network.contains(address.0).into()
}

fn contains_ip_text(network: &Network, text: &CelString<'_>) -> Result<CelBool, ExecutionError> {
    Ok(network.contains(parse_ip(text.inner())?).into())
}

fn contains_cidr(network: &Network, other: &Network) -> CelBool {
    network.contains_network(*other).into()
}

fn contains_cidr_text(network: &Network, text: &CelString<'_>) -> Result<CelBool, ExecutionError> {
    Ok(network.contains_network(Network::parse(text.inner())?).into())
}

fn network_ip(network: &Network) -> Address {
    Address(network.0)
}

fn masked(network: &Network) -> Network {
    Network(network.start(), network.1)
}

fn prefix_length(network: &Network) -> CelInt {
    i64::from(network.1).into()
}

fn network_text(network: &Network) -> CelString<'static> {
    CelString::from(format!("{}/{}", network.0, network.1))
}
