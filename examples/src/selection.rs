//! Command line arguments that select objects and delete them, as `kubectl delete` has them.

use std::{error::Error, io, path::PathBuf, time::Duration};

use clap::ValueEnum;
use kubegc::{
    core::{DeleteOptions, ObjectRef, Preconditions, PropagationPolicy, deletion::Propagation},
    predict::{Cluster, Intent, Selection, Target},
    snapshot::Reader,
};

/// The objects to delete, and how.
#[non_exhaustive]
#[derive(Clone, Debug, Default, clap::Args)]
pub struct SelectionArguments {
    /// Objects to delete: `deployment/web`, `deploy web api`, or `pods,services` with --selector or --all.
    /// Also `-`, for a dump on standard input.
    #[arg(value_name = "OBJECT")]
    pub objects: Vec<String>,
    /// The namespace of the objects. Default: `default`, or the only one that has an object of this name.
    #[arg(long, short)]
    pub namespace: Option<String>,
    /// Select in all namespaces.
    #[arg(long, short = 'A')]
    pub all_namespaces: bool,
    /// Delete the objects of the types that have these labels, such as `app=web,tier!=cache`.
    #[arg(long, short = 'l')]
    pub selector: Option<String>,
    /// Delete all objects of the types.
    #[arg(long)]
    pub all: bool,
    /// Delete the objects of these manifests: files, directories, or `-` for standard input.
    #[arg(long, short = 'f', value_name = "FILE")]
    pub filename: Vec<PathBuf>,
    /// The deletion propagation policy.
    #[arg(long, value_enum, default_value_t)]
    pub cascade: Cascade,
    /// The uid that each object must have.
    #[arg(long, value_name = "UID")]
    pub uid: Option<String>,
}

/// The values of `--cascade`, by their effect on the dependents of a deleted object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Cascade {
    /// The garbage collector deletes them afterwards; the default of kubectl.
    #[default]
    #[value(alias = "true")]
    Background,
    /// The garbage collector deletes them first.
    Foreground,
    /// They are kept.
    #[value(alias = "false")]
    Orphan,
    /// The request names no policy: the API server uses the default of the type, as for client libraries.
    Unset,
}

impl SelectionArguments {
    /// Whether nothing is selected.
    pub const fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.filename.is_empty()
    }

    /// Takes the `-` of a dump on standard input from the objects.
    pub fn take_standard_input(&mut self) -> bool {
        let before = self.objects.len();
        self.objects.retain(|object| object != "-");
        self.objects.len() < before
    }

    /// The deletes.
    ///
    /// # Errors
    /// A manifest cannot be read, or the arguments select nothing.
    pub fn intents(&self, cluster: &Cluster) -> Result<Vec<Intent>, Box<dyn Error>> {
        let mut selection = Selection::default();
        selection.arguments.clone_from(&self.objects);
        selection.namespace = self.namespace.as_deref().map(Into::into);
        selection.all_namespaces = self.all_namespaces;
        selection.selector = self.selector.as_deref().map(str::parse).transpose()?;
        selection.all = self.all;
        for path in &self.filename {
            let mut reader = Reader::new(cluster.version());
            match path.to_str() {
                Some("-") => reader.read("standard input", io::stdin().lock())?,
                _ => reader.read_path(path)?,
            }
            selection.manifests.push(reader.finish()?);
        }
        let intents = selection.targets(cluster)?.into_iter().map(|target| Intent {
            target,
            options: self.options(),
            after: Duration::ZERO,
        });
        Ok(intents.collect())
    }

    /// The objects of these names, in the namespace of the others.
    ///
    /// # Errors
    /// A name means no object, or several.
    pub fn objects_named(
        &self,
        cluster: &Cluster,
        names: &[String],
    ) -> Result<Vec<ObjectRef>, Box<dyn Error>> {
        let mut objects = Vec::new();
        for name in names {
            let mut selection = Selection::default();
            selection.arguments = vec![name.clone()];
            selection.namespace = self.namespace.as_deref().map(Into::into);
            for target in selection.targets(cluster)? {
                let Target::Object(name) = target else { continue };
                let object = cluster.snapshot().object(cluster.position(&name)? as usize);
                objects.extend(object.map(|object| object.object_ref()));
            }
        }
        Ok(objects)
    }

    fn options(&self) -> DeleteOptions {
        let policy = match self.cascade {
            Cascade::Background => Some(PropagationPolicy::Background),
            Cascade::Foreground => Some(PropagationPolicy::Foreground),
            Cascade::Orphan => Some(PropagationPolicy::Orphan),
            Cascade::Unset => None,
        };
        DeleteOptions {
            propagation: policy.map(Propagation::Policy),
            preconditions: Preconditions {
                uid: self.uid.as_deref().map(Into::into),
                resource_version: None,
            },
            ..DeleteOptions::default()
        }
    }
}
