//! `completions` prints the script that completes commands in a shell.

use clap_complete::Shell;
use serde_json::json;

use super::complete;
use crate::{
    answer::Answer,
    args::{self, CompletionsArgs},
};

pub(super) fn run(args: &CompletionsArgs) -> Answer {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::command(), "pstore", &mut script);
    let mut script = String::from_utf8_lossy(&script).into_owned();
    script.push_str(&names(args.shell).replace("VERB", complete::VERB));
    Answer::new(json!({ "shell": args.shell.to_string(), "script": script }), script)
}

/// What adds names that are stored to the commands and options that the grammar knows.
fn names(shell: Shell) -> &'static str {
    match shell {
        Shell::Bash => BASH,
        Shell::Zsh => ZSH,
        Shell::Fish => FISH,
        _ => "",
    }
}

/// Bash takes `@` and `:` for the ends of words, unless it is told otherwise, and replaces only what
/// comes after the last of them.
const BASH: &str = r#"
_pstore_names() {
    _pstore "$@"
    local line="${COMP_LINE:0:COMP_POINT}"
    local word="${line##* }"
    [[ $word == -* ]] && return
    local -a words
    read -ra words <<< "$line"
    [[ -z $word ]] && words+=("")
    local -a found
    mapfile -t found < <("${words[0]}" VERB "${words[@]:1}" 2>/dev/null)
    [[ ${#found[@]} -eq 0 ]] && return
    local breaks="" letter head=""
    for letter in @ : =; do
        [[ $COMP_WORDBREAKS == *"$letter"* ]] && breaks+="$letter"
    done
    [[ -n $breaks ]] && head="${word%"${word##*[$breaks]}"}"
    COMPREPLY=("${found[@]#"$head"}")
    [[ ${#found[@]} -eq 1 && ${found[0]} == */ ]] && compopt -o nospace 2>/dev/null
    return 0
}

complete -F _pstore_names -o nosort -o bashdefault -o default pstore
"#;

const ZSH: &str = r#"
_pstore_names() {
    local word="${words[CURRENT]}"
    if [[ $word != -* ]]; then
        local -a found
        found=("${(@f)$("${words[1]}" VERB "${(@)words[2,CURRENT]}" 2>/dev/null)}")
        found=("${(@)found:#}")
        if (( ${#found} )); then
            compadd -S '' -U -- "${(@)found}"
            return 0
        fi
    fi
    _pstore "$@"
}

compdef _pstore_names pstore
"#;

const FISH: &str = r#"
function __fish_pstore_names
    set -l words (commandline -opc) (commandline -ct)
    $words[1] VERB $words[2..-1] 2>/dev/null
end

complete -c pstore -a "(__fish_pstore_names)"
"#;
