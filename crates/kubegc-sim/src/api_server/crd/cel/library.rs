//! The functions of Kubernetes that the interpreter lacks; `functions.txt` has their types and costs.
//!
//! # Upstream
//! `apiserver/pkg/cel/library/{lists,regex,quantity,ip,cidr}.go`, 1.31.0; `semverlib.go`, 1.34.0; `sets.go`
//! in `cel-go/ext`.

use std::{cmp::Ordering, collections::BTreeSet};

use cel::{
    DeclarationError, Env, ExecutionError,
    common::{
        functions::Function,
        types::{
            BOOL_TYPE, CelBool, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelOptional, CelString,
            DYN_TYPE, INT_TYPE, LIST_TYPE, MAP_TYPE, STRING_TYPE, Type,
        },
        value::{CowVal, FromVal, Val},
    },
};
use kubegc_core::Quantity;
use regex::Regex;
use semver::Version;

use super::{
    addresses::{Address, Network},
    formats::Format,
    types::{Ty, all_overloads},
    urls::Url,
    values::value,
};
use crate::formats;

type Args<'b, 'v> = [CowVal<'b, 'v>];
type Outcome<'b, 'v> = Result<CowVal<'b, 'v>, ExecutionError>;

/// Declares the functions of the table that the interpreter lacks.
pub(super) fn declare(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_extension(cel::extensions::strings)?;
    env.add_extension(cel::extensions::lists)?;
    let mut declared = BTreeSet::new();
    for (name, overload) in all_overloads() {
        let id = format!("{name} {}", overload.erased);
        let Some(function) = implementation(&id).filter(|_| declared.insert(id.clone())) else {
            continue;
        };
        let mut types: Vec<Type> = overload.operands.iter().map(runtime_type).collect();
        if overload.is_member {
            let target = types.remove(0);
            env.add_member_overload(name, &id, target, types, function)?;
        } else {
            env.add_overload(name, &id, types, function)?;
        }
    }
    Ok(())
}

/// The implementation of an overload. The signature leaves out the types of items and entries.
fn implementation(signature: &str) -> Option<Function> {
    let function: Function = match signature {
        "isSorted list.()" => |a| truth(is_sorted(&items(&a, 0)?)?),
        "sum list.()" => |a| sum(&items(&a, 0)?),
        "min list.()" => |a| extreme(&items(&a, 0)?, "min", Ordering::Less),
        "max list.()" => |a| extreme(&items(&a, 0)?, "max", Ordering::Greater),
        "indexOf list.(A)" => |a| index(&a, false),
        "lastIndexOf list.(A)" => |a| index(&a, true),
        "first list.()" => |a| optional(items(&a, 0)?.first().map(|item| item.clone_as_boxed())),
        "last list.()" => |a| optional(items(&a, 0)?.last().map(|item| item.clone_as_boxed())),
        "unwrapOpt list.()" | "optional.unwrap (list)" => |a| present(&items(&a, 0)?),
        "sets.contains (list,list)" => |a| truth(has_all(&a, 0, 1)?),
        "sets.equivalent (list,list)" => |a| truth(has_all(&a, 0, 1)? && has_all(&a, 1, 0)?),
        "sets.intersects (list,list)" => |a| truth(intersect(&a)?),
        "@sameItems (list,list)" => |a| truth(has_same_items(&a)?),
        "@otherItems (list,list)" => |a| truth(!has_same_items(&a)?),
        "@entries (list)" | "@entries (map)" => |a| entries(&a),
        "cel.@mapInsert (map,A,B)" | "cel.@mapInsert (map,map)" => |a| insert(&a),
        "find string.(string)" => |a| find(&a),
        "findAll string.(string)" | "findAll string.(string,int)" => |a| find_all(&a),
        "url (string)" => |a| {
            let parsed = Url::parse(text(&a, 0)?);
            let problem = |problem| format!("URL parse error during conversion from string: {problem}");
            own(parsed.map_err(problem).map_err(failed("url"))?)
        },
        "isURL (string)" => |a| truth(Url::parse_request(text(&a, 0)?).is_ok()),
        "getScheme url.()" => |a| string(&given::<Url>(&a, 0)?.scheme),
        "getHost url.()" => |a| string(&given::<Url>(&a, 0)?.host),
        "getHostname url.()" => |a| string(given::<Url>(&a, 0)?.host_and_port().0),
        "getPort url.()" => |a| string(given::<Url>(&a, 0)?.host_and_port().1),
        "getEscapedPath url.()" => |a| string(&given::<Url>(&a, 0)?.escaped_path()),
        "getQuery url.()" => |a| query(given(&a, 0)?),
        "quantity (string)" => |a| own(Amount(parse_quantity(text(&a, 0)?)?)),
        "isQuantity (string)" => |a| truth(parse_quantity(text(&a, 0)?).is_ok()),
        "sign (quantity)" => |a| whole(amount(&a, 0)?.cmp(&Quantity::decimal_si(0)) as i64),
        "isGreaterThan quantity.(quantity)" => |a| truth(amount(&a, 0)? > amount(&a, 1)?),
        "isLessThan quantity.(quantity)" => |a| truth(amount(&a, 0)? < amount(&a, 1)?),
        "compareTo quantity.(quantity)" => |a| whole(amount(&a, 0)?.cmp(&amount(&a, 1)?) as i64),
        "asApproximateFloat quantity.()" => |a| own(CelDouble::from(amount(&a, 0)?.as_f64())),
        "asInteger quantity.()" => |a| {
            let number = amount(&a, 0)?.as_i64().ok_or("cannot convert value to integer");
            whole(number.map_err(failed("asInteger"))?)
        },
        "isInteger quantity.()" => |a| truth(amount(&a, 0)?.as_i64().is_some()),
        "add quantity.(quantity)" | "add quantity.(int)" => |a| sum_of(&a, amount(&a, 1)?),
        "sub quantity.(quantity)" | "sub quantity.(int)" => |a| sum_of(&a, amount(&a, 1)?.negated()),
        "ip (string)" => |a| own(address(&a, 0)?),
        "isIP (string)" => |a| truth(address(&a, 0).is_ok()),
        "ip.isCanonical (string)" => |a| truth(address(&a, 0)?.0.to_string() == text(&a, 0)?),
        "family ip.()" => |a| whole(if address(&a, 0)?.0.is_ipv4() { 4 } else { 6 }),
        "isUnspecified ip.()" => |a| truth(address(&a, 0)?.0.is_unspecified()),
        "isLoopback ip.()" => |a| truth(address(&a, 0)?.0.is_loopback()),
        "isLinkLocalMulticast ip.()" => |a| truth(formats::is_link_local_multicast(address(&a, 0)?.0)),
        "isLinkLocalUnicast ip.()" => |a| truth(formats::is_link_local(address(&a, 0)?.0)),
        "isGlobalUnicast ip.()" => |a| truth(address(&a, 0)?.is_global_unicast()),
        "string (ip)" => |a| string(&address(&a, 0)?.0.to_string()),
        "cidr (string)" => |a| own(network(&a, 0)?),
        "isCIDR (string)" => |a| truth(network(&a, 0).is_ok()),
        "containsIP cidr.(string)" | "containsIP cidr.(ip)" => {
            |a| truth(network(&a, 0)?.contains(address(&a, 1)?))
        }
        "containsCIDR cidr.(string)" | "containsCIDR cidr.(cidr)" => {
            |a| truth(network(&a, 0)?.contains_network(network(&a, 1)?))
        }
        "ip cidr.()" => |a| own(network(&a, 0)?.address),
        "prefixLength cidr.()" => |a| whole(network(&a, 0)?.length.into()),
        "masked cidr.()" => |a| own(network(&a, 0)?.masked()),
        "string (cidr)" => |a| string(&network(&a, 0)?.shown()),
        "format.named (string)" => |a| optional(named(text(&a, 0)?)),
        "format.dns1123Label ()" => |_| own(Format("dns1123Label")),
        "format.dns1123Subdomain ()" => |_| own(Format("dns1123Subdomain")),
        "format.dns1035Label ()" => |_| own(Format("dns1035Label")),
        "format.qualifiedName ()" => |_| own(Format("qualifiedName")),
        "format.dns1123LabelPrefix ()" => |_| own(Format("dns1123LabelPrefix")),
        "format.dns1123SubdomainPrefix ()" => |_| own(Format("dns1123SubdomainPrefix")),
        "format.dns1035LabelPrefix ()" => |_| own(Format("dns1035LabelPrefix")),
        "format.labelValue ()" => |_| own(Format("labelValue")),
        "format.uri ()" => |_| own(Format("uri")),
        "format.uuid ()" => |_| own(Format("uuid")),
        "format.byte ()" => |_| own(Format("byte")),
        "format.date ()" => |_| own(Format("date")),
        "format.datetime ()" => |_| own(Format("datetime")),
        "validate format.(string)" => |a| validate(*given(&a, 0)?, text(&a, 1)?),
        "semver (string)" | "semver (string,bool)" => |a| own(release(&a)?),
        "isSemver (string)" | "isSemver (string,bool)" => |a| truth(release(&a).is_ok()),
        "isGreaterThan semver.(semver)" => |a| truth(precedence(&a)?.is_gt()),
        "isLessThan semver.(semver)" => |a| truth(precedence(&a)?.is_lt()),
        "compareTo semver.(semver)" => |a| whole(precedence(&a)? as i64),
        "major semver.()" => |a| part(given::<Release>(&a, 0)?.0.major),
        "minor semver.()" => |a| part(given::<Release>(&a, 0)?.0.minor),
        "patch semver.()" => |a| part(given::<Release>(&a, 0)?.0.patch),
        _ => return None,
    };
    Some(function)
}

/// The interpreter does not distinguish lists by their items.
fn runtime_type(ty: &Ty<'static>) -> Type {
    match ty.parts().map_or("dyn", |(name, _)| name) {
        "bool" => BOOL_TYPE,
        "int" => INT_TYPE,
        "string" => STRING_TYPE,
        "list" => LIST_TYPE,
        "map" => MAP_TYPE,
        name if name.contains('.') => Type::new_unspecified_type(name),
        _ => DYN_TYPE,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Amount(Quantity);
value!(Amount, "kubernetes.Quantity");

#[derive(Clone, Debug, PartialEq, Eq)]
struct Release(Version);
value!(Release, "kubernetes.Semver");

fn own<'b, 'v>(value: impl Val + 'v) -> Outcome<'b, 'v> {
    Ok(CowVal::owned(value))
}

fn truth<'b, 'v>(holds: bool) -> Outcome<'b, 'v> {
    own(CelBool::from(holds))
}

fn whole<'b, 'v>(number: i64) -> Outcome<'b, 'v> {
    own(CelInt::from(number))
}

fn string<'b, 'v>(text: &str) -> Outcome<'b, 'v> {
    own(CelString::from(text.to_owned()))
}

fn optional<'b, 'v>(value: Option<Box<dyn Val + 'v>>) -> Outcome<'b, 'v> {
    own(CelOptional::from(value))
}

fn boxed_texts<'v>(texts: impl IntoIterator<Item = impl Into<String>>) -> CelList<'v> {
    let boxed = texts.into_iter().map(|text| {
        let text: Box<dyn Val + 'v> = Box::new(CelString::from(text.into()));
        text
    });
    CelList::from(boxed.collect::<Vec<_>>())
}

pub(super) fn failed<T: Into<String>>(function: &'static str) -> impl Fn(T) -> ExecutionError {
    move |problem| ExecutionError::function_error(function, problem.into())
}

/// An argument. Functions are called with the types that they declare.
fn given<'a, 'v, T: FromVal<'a, 'v>>(args: &'a Args<'_, 'v>, at: usize) -> Result<&'a T, ExecutionError> {
    let argument = args.get(at).and_then(|argument| argument.downcast_ref::<T>());
    argument.ok_or_else(|| ExecutionError::invalid_argument_count(at + 1, args.len()))
}

fn text<'a>(args: &'a Args<'_, '_>, at: usize) -> Result<&'a str, ExecutionError> {
    Ok(given::<CelString<'_>>(args, at)?.inner())
}

fn number(args: &Args<'_, '_>, at: usize) -> Result<i64, ExecutionError> {
    Ok(*given::<CelInt>(args, at)?.inner())
}

/// A quantity, or a number.
fn amount(args: &Args<'_, '_>, at: usize) -> Result<Quantity, ExecutionError> {
    match given::<Amount>(args, at) {
        Ok(amount) => Ok(amount.0),
        Err(_) => Ok(Quantity::decimal_si(number(args, at)?)),
    }
}

/// An address, or its text.
fn address(args: &Args<'_, '_>, at: usize) -> Result<Address, ExecutionError> {
    match given::<Address>(args, at) {
        Ok(address) => Ok(*address),
        Err(_) => Address::parse(text(args, at)?).map_err(failed("ip")),
    }
}

/// A network, or its text.
fn network(args: &Args<'_, '_>, at: usize) -> Result<Network, ExecutionError> {
    match given::<Network>(args, at) {
        Ok(network) => Ok(*network),
        Err(_) => Network::parse(text(args, at)?).map_err(failed("cidr")),
    }
}

fn items<'a, 'v>(args: &'a Args<'_, 'v>, at: usize) -> Result<Vec<&'a (dyn Val + 'v)>, ExecutionError> {
    let list = args.get(at).and_then(|list| list.as_iterable());
    let list = list.ok_or_else(|| ExecutionError::invalid_argument_count(at + 1, args.len()))?;
    let (mut items, mut all) = (list.iter(), Vec::new());
    while let Some(item) = items.next() {
        all.push(item);
    }
    Ok(all)
}

fn compare(one: &dyn Val, other: &dyn Val) -> Result<Ordering, ExecutionError> {
    let comparer = one.as_comparer().ok_or("no such overload");
    comparer.map_err(failed("compare"))?.compare(other)
}

fn is_sorted(items: &[&dyn Val]) -> Result<bool, ExecutionError> {
    for pair in items.windows(2) {
        if let [one, next] = pair
            && compare(*one, *next)?.is_gt()
        {
            return Ok(false);
        }
    }
    Ok(true)
}

fn sum<'b, 'v>(items: &[&(dyn Val + 'v)]) -> Outcome<'b, 'v> {
    let Some((first, more)) = items.split_first() else {
        return whole(0);
    };
    let mut total = first.clone_as_boxed();
    for item in more {
        let adder = total.as_adder().ok_or("no such overload");
        total = adder.map_err(failed("sum"))?.add(*item)?.into_owned();
    }
    Ok(CowVal::Owned(total))
}

fn extreme<'b, 'v>(items: &[&(dyn Val + 'v)], name: &'static str, wanted: Ordering) -> Outcome<'b, 'v> {
    let (first, more) = items
        .split_first()
        .ok_or_else(|| failed(name)(format!("{name} called on empty list")))?;
    let mut best = *first;
    for item in more {
        if compare(*item, best)? == wanted {
            best = *item;
        }
    }
    Ok(CowVal::Owned(best.clone_as_boxed()))
}

/// The position of the first or the last item that equals an argument.
fn index<'b, 'v>(args: &Args<'_, 'v>, is_last: bool) -> Outcome<'b, 'v> {
    let items = items(args, 0)?;
    let is = |item: &&(dyn Val + 'v)| args.get(1).is_some_and(|wanted| item.equals(wanted.as_ref()));
    let found = match is_last {
        true => items.iter().rposition(is),
        false => items.iter().position(is),
    };
    whole(found.and_then(|index| i64::try_from(index).ok()).unwrap_or(-1))
}

/// The values of the optionals that have one.
fn present<'b, 'v>(items: &[&(dyn Val + 'v)]) -> Outcome<'b, 'v> {
    let mut values: Vec<Box<dyn Val + 'v>> = Vec::new();
    for item in items {
        let optional = item.downcast_ref::<CelOptional<'_>>();
        let optional = optional
            .ok_or("value is not optional")
            .map_err(failed("unwrap"))?;
        values.extend(optional.inner().map(|value| value.clone_as_boxed()));
    }
    own(CelList::from(values))
}

/// Whether one list has all items of the other.
fn has_all(args: &Args<'_, '_>, one: usize, other: usize) -> Result<bool, ExecutionError> {
    let (all, wanted) = (items(args, one)?, items(args, other)?);
    Ok(wanted
        .iter()
        .all(|item| all.iter().any(|known| known.equals(*item))))
}

/// Whether two lists without equal items have the same items.
fn has_same_items(args: &Args<'_, '_>) -> Result<bool, ExecutionError> {
    Ok(items(args, 0)?.len() == items(args, 1)?.len() && has_all(args, 0, 1)?)
}

fn intersect(args: &Args<'_, '_>) -> Result<bool, ExecutionError> {
    let (one, other) = (items(args, 0)?, items(args, 1)?);
    Ok(one
        .iter()
        .any(|item| other.iter().any(|known| known.equals(*item))))
}

fn pattern(args: &Args<'_, '_>) -> Result<Regex, ExecutionError> {
    let pattern = text(args, 1)?;
    Regex::new(pattern).map_err(|_| failed("find")(format!("Illegal regex: {pattern}")))
}

fn find<'b, 'v>(args: &Args<'_, '_>) -> Outcome<'b, 'v> {
    string(
        pattern(args)?
            .find(text(args, 0)?)
            .map_or("", |found| found.as_str()),
    )
}

/// A negative limit is none.
fn find_all<'b, 'v>(args: &Args<'_, '_>) -> Outcome<'b, 'v> {
    let limit = number(args, 2).ok().and_then(|limit| usize::try_from(limit).ok());
    let pattern = pattern(args)?;
    let found = pattern
        .find_iter(text(args, 0)?)
        .take(limit.unwrap_or(usize::MAX));
    own(boxed_texts(found.map(|found| found.as_str())))
}

/// The entries of a list or map: lists of key and value.
fn entries<'b, 'v>(args: &Args<'_, 'v>) -> Outcome<'b, 'v> {
    let mut entries: Vec<Box<dyn Val + 'v>> = Vec::new();
    let mut push = |key: Box<dyn Val + 'v>, value: Box<dyn Val + 'v>| {
        entries.push(Box::new(CelList::from(vec![key, value])));
    };
    if let Ok(map) = given::<CelMap<'_>>(args, 0) {
        for (key, value) in map.inner() {
            push(key.inner().clone_as_boxed(), value.clone_as_boxed());
        }
    } else {
        for (index, item) in (0_i64..).zip(items(args, 0)?) {
            push(Box::new(CelInt::from(index)), item.clone_as_boxed());
        }
    }
    own(CelList::from(entries))
}

/// A map with an entry, or the entries of a map, more.
fn insert<'b, 'v>(args: &Args<'_, 'v>) -> Outcome<'b, 'v> {
    let mut entries = given::<CelMap<'_>>(args, 0)?.clone().into_inner();
    let new: Vec<(CelMapKey<'v>, Box<dyn Val + 'v>)> = match args {
        [_, key, value] => vec![(CelMapKey::try_from(key.clone_as_boxed())?, value.clone_as_boxed())],
        _ => given::<CelMap<'_>>(args, 1)?
            .clone()
            .into_inner()
            .into_iter()
            .collect(),
    };
    for (key, value) in new {
        let shown = match &key {
            CelMapKey::Bool(flag) => flag.inner().to_string(),
            CelMapKey::Int(number) => number.inner().to_string(),
            CelMapKey::String(text) => text.inner().to_owned(),
            CelMapKey::UInt(number) => number.inner().to_string(),
        };
        if entries.insert(key, value).is_some() {
            return Err(failed("insert")(format!(
                "insert failed: key {shown} already exists"
            )));
        }
    }
    own(CelMap::from(entries))
}

fn query<'b, 'v>(url: &Url) -> Outcome<'b, 'v> {
    let mut entries = CelMap::default().into_inner();
    for (key, values) in url.values() {
        entries.insert(CelMapKey::from(key), Box::new(boxed_texts(values)));
    }
    own(CelMap::from(entries))
}

fn parse_quantity(text: &str) -> Result<Quantity, ExecutionError> {
    let problem =
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    Quantity::parse(text).ok_or(problem).map_err(failed("quantity"))
}

fn sum_of<'b, 'v>(args: &Args<'_, '_>, more: Quantity) -> Outcome<'b, 'v> {
    own(Amount(amount(args, 0)?.plus(more)))
}

fn named<'v>(name: &str) -> Option<Box<dyn Val + 'v>> {
    let mut names = all_overloads().filter_map(|(name, _)| name.strip_prefix("format."));
    let known = names.find(|known| *known == name && name != "named")?;
    Some(Box::new(Format(known)))
}

/// The problems of a text, if it has any.
fn validate<'b, 'v>(format: Format, text: &str) -> Outcome<'b, 'v> {
    let problems = format.problems(text);
    match problems.is_empty() {
        true => optional(None),
        false => optional(Some(Box::new(boxed_texts(problems)))),
    }
}

/// The version of a text. A second argument says whether the text may lack parts of it.
fn release(args: &Args<'_, '_>) -> Result<Release, ExecutionError> {
    let is_loose = given::<CelBool>(args, 1).is_ok_and(|is_loose| *is_loose.inner());
    let text = text(args, 0)?;
    let parsed = match is_loose {
        true => Version::parse(&normalized(text)),
        false => Version::parse(text),
    };
    let parsed = parsed.map_err(|error| error.to_string());
    parsed.map(Release).map_err(failed("semver"))
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

fn part<'b, 'v>(number: u64) -> Outcome<'b, 'v> {
    whole(i64::try_from(number).unwrap_or(i64::MAX))
}

fn precedence(args: &Args<'_, '_>) -> Result<Ordering, ExecutionError> {
    let (one, other) = (given::<Release>(args, 0)?, given::<Release>(args, 1)?);
    Ok(one.0.cmp_precedence(&other.0))
}
