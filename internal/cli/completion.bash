# Completion of oncebox in {{.Shell}}: `oncebox completion -c {{.Shell}}` prints this script.
{{- define "flags"}}{{range .Flags}}{{range .Names}} --{{.}}{{end}}{{with .Letter}} -{{.}}{{end}}{{end}}{{end}}
{{- if eq .Shell "zsh"}}
autoload -U +X bashcompinit && bashcompinit
{{- end}}

# Sets the words and the flags that can follow at a place: a command, or a flag that needs a value. Fails if there is no
# such place.
__oncebox_at() {
  words_here='' flags_here=''
  case $1 in
{{- range .Commands}}{{$place := .Place}}
  {{$place}})
    words_here='{{range .Commands}}{{.Name}} {{end}}{{join .Values " "}}'
    flags_here='{{template "flags" .}}{{if .Parent}}{{template "flags" $.Program}}{{end}}' ;;
{{- if not .Parent}}{{$place = "*"}}{{end}}
{{- range .Flags}}{{if not .IsBool}}{{$values := join .Values " "}}{{range .Names}}
  {{$place}}/--{{.}}) words_here='{{$values}}' ;;
{{- end}}{{end}}{{end}}{{end}}
  *) return 1 ;;
  esac
}

_oncebox() {
  local place=oncebox flag='' typed=${COMP_WORDS[COMP_CWORD]} word words_here flags_here
  for word in "${COMP_WORDS[@]:1:$((COMP_CWORD - 1))}"; do
    if [[ $place != */-* ]]; then
      if __oncebox_at "$place/$word"; then place=$place/$word; fi
    elif [[ $word != '=' ]]; then # the value of the flag
      place=${place%/*}
    fi
  done
  typed=${typed#=} # bash makes three words of --flag=value, zsh makes one
  if [[ $typed == -*=* ]]; then
    flag=${typed%%=*}= typed=${typed#*=} place=$place/${flag%=}
  fi
  __oncebox_at "$place"
  if [[ $typed == -* ]]; then words_here=$flags_here; fi
  COMPREPLY=()
  if [[ $words_here ]]; then COMPREPLY=($(compgen -P "$flag" -W "$words_here" -- "$typed")); fi
}

# Where nothing is known, the shell completes file names.
complete -o default -o bashdefault -F _oncebox oncebox
