# Completion of oncebox in fish: `oncebox completion -c fish` prints this script.

# Whether the command line is at a command, as in oncebox/campaign/create.
function __oncebox_at
    set -l at $argv[1]
    set -l place oncebox
    set -l words (commandline -opc)
    argparse -i{{range .Program.Flags}}{{if not .IsBool}} {{.Name}}={{end}}{{end}} -- $words[2..] 2>/dev/null; or return
    for word in (string match -v -- '-*' $argv)
        contains -- $place/$word{{range .Commands}} {{.Place}}{{end}}; or break
        set place $place/$word
    end
    test $place = $at
end
{{range .Commands}}{{$place := .Place}}
{{- range .Commands}}
complete -c oncebox -n '__oncebox_at {{$place}}' -f -a {{.Name}} -d {{fish .Help}}
{{- end}}
{{- with .Values}}
complete -c oncebox -n '__oncebox_at {{$place}}' -f -a '{{join . " "}}'
{{- end}}
{{- $program := not .Parent}}
{{- range .Flags}}
complete -c oncebox {{- if not $program}} -n '__oncebox_at {{$place}}'{{end}}
{{- range .Names}} -l {{.}}{{end}}{{with .Letter}} -s {{.}}{{end}}
{{- if .Values}} -x -a '{{join .Values " "}}'{{else if not .IsBool}} -r -F{{end}} -d {{fish .Help}}
{{- end}}{{end}}
