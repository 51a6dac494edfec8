# One target per artifact, one per study, and one per Gram matrix: gram_NAME.


for study in wiring.catalogue.studies:

    rule:
        name:
            study
        input:
            wiring.study_files(study, SCALE),


for artifact in wiring.catalogue:

    rule:
        name:
            artifact.name
        input:
            wiring.pictures(artifact.name, SCALE),


for gram in wiring.grams(SCALE).plans:

    rule:
        name:
            f"gram_{gram}"
        input:
            wiring.certificates(gram, SCALE),
